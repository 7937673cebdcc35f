"""The option of the filter: the expression."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ConfigDict, RootModel, field_validator

from .expression import compile
from .wildcards import mistaken


class CesqlConfig(RootModel[str]):
    """A CloudEvents SQL expression (CESQL 1.0): `type = 'order' AND subject LIKE 'eu/%'`."""

    model_config = ConfigDict(frozen=True)

    @field_validator("root")
    @classmethod
    def _is_filter(cls, value: str) -> str:
        compile(value).check_filter()
        return value

    def warnings(self) -> Iterator[tuple[tuple[()], str, str]]:
        """Warns of `*` where `%` is meant (see `Config`)."""
        for written, remedy in mistaken(compile(self.root).tree):
            yield (), f"`{written}` has no wildcard but `*`, which is compared as it is", f"write `{remedy}`"
