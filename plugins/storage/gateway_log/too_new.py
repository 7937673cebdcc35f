"""What is said of a log, or of a file of it, that a later version of Tidegate has written."""

from __future__ import annotations

from gateway_core.contract.errors import StartError


def too_new(found: int, known: int) -> str | None:
    """What is wrong with a file of the format `found`; None for formats up to `known`, the newest of this version."""
    return f"has format {found}, which is newer than this version's format {known}" if found > known else None


def refuse_too_new(place: object, found: int, known: int) -> None:
    """Raises `StartError` for a format after `known`."""
    if (why := too_new(found, known)) is not None:
        raise StartError(
            f"log: {place} {why}: run the version of Tidegate that wrote it, or name another data directory"
        )
