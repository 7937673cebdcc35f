"""The option of the filter: the expression."""

from __future__ import annotations

from pydantic import ConfigDict, RootModel, field_validator

from .expression import compile


class CesqlConfig(RootModel[str]):
    """A CloudEvents SQL expression (CESQL 1.0): `type = 'order' AND subject LIKE 'eu/%'`."""

    model_config = ConfigDict(frozen=True)

    @field_validator("root")
    @classmethod
    def _is_filter(cls, value: str) -> str:
        compile(value).check_filter()
        return value
