"""`tidegate check --secrets`: where each secret comes from, whether it is there, and what uses it. Never its value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from gateway_terminal.tables import aligned

from gateway_core.config.load import Loading


@dataclass(frozen=True, slots=True)
class SecretRow:
    """A secret of a config. `missing` says why it has no value, "" if it has one."""

    name: str
    origin: str
    missing: str
    uses: list[str]


def secret_rows(loading: Loading) -> list[SecretRow]:
    """All secrets of a config that was loaded, also one with faults."""
    return [_row(loading, name) for name in loading.secrets]


def _row(loading: Loading, name: str) -> SecretRow:
    uses = list(dict.fromkeys(loading.written(place)[0] for place in loading.used.uses.get(name, ())))
    config = loading.secrets[name]
    if (config.env is None) == (config.file is None):
        return SecretRow(name, "-", "a secret has either `env` or `file`", uses)
    file = loading.secret_file(name)
    origin = f"env {config.env}" if file is None else f"file {file}"
    try:
        loading.secret_value(name)
    except ValueError as e:
        return SecretRow(name, origin, str(e), uses)
    return SecretRow(name, origin, "", uses)


def as_json(rows: Sequence[SecretRow]) -> list[dict[str, object]]:
    """The rows as JSON values."""
    return [{**asdict(row), "ok": not row.missing} for row in rows]


def as_text(rows: Sequence[SecretRow]) -> str:
    """The rows as a table."""
    if not rows:
        return "the config has no secrets"
    cells = [
        ("ok" if not row.missing else "MISSING", row.name, row.origin, ", ".join(row.uses) or "nothing", row.missing)
        for row in rows
    ]
    return "\n".join(aligned([("RESULT", "SECRET", "FROM", "USED BY", "REASON"), *cells]))
