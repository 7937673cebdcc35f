"""The base class of config models."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import pairwise
from textwrap import dedent
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo

HIDDEN = "****"
"""Shown in place of a secret."""
_CREDENTIAL = re.compile(r"(^|_)(password|secrets?|token)$|^keys$")
_MAY_HOLD_SOME = ("headers", "conf")
_known: dict[str, None] = {}  # values of secrets, the newest last


def is_credential(option: str) -> bool:
    """Whether an option of this name holds a credential, so that nothing shows it, wherever it came from."""
    return _CREDENTIAL.search(option) is not None


def remember(secret: str) -> None:
    """Makes `redacted` find this secret. Short ones would blot out common words."""
    if len(secret) >= 8:
        for form in (secret, repr(secret)[1:-1], quote(secret), quote(secret, safe="")):
            _known[form] = _known.pop(form, None)
        while len(_known) > 1000:
            del _known[next(iter(_known))]


def redacted(value: Any) -> Any:
    """Text from elsewhere (an error, say) with `****` for each secret of the config; also in mappings and lists."""
    if isinstance(value, dict):
        return {redacted(name): redacted(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [redacted(inner) for inner in value]
    if isinstance(value, str):
        value = str(value)  # an `Owner` can't be encoded
        for secret in tuple(_known):
            if secret in value:
                value = value.replace(secret, HIDDEN)
    return value


def described(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields of a model; the docstrings of its attributes are their descriptions."""
    for base in (base for base in model.__mro__ if base is model or Config in base.__mro__[1:]):
        with suppress(OSError, TypeError, SyntaxError):  # it has no source
            tree: Any = ast.parse(dedent(inspect.getsource(base))).body[0]
            for field, text in pairwise(tree.body):
                match field, text:
                    case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(words))):
                        if (info := model.model_fields.get(name)) and info.description is None:
                            info.description = inspect.cleandoc(words)
    return model.model_fields


class Config(BaseModel):
    """The base of every config model: strict about keys, so that a misspelt one is a fault and not a surprise. A
    gateway knows the models of all plugins and uses few: docstrings are read, and validators built, at first use.

    A model whose values can be valid but unwise has a method `warnings() -> Iterable[tuple[Place, str, str]]`: each
    warning's place below this value, what is unwise, and the remedy. Its components have their options by then."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, defer_build=True)
    _hidden: frozenset[str] = frozenset()  # fields that hold a secret's value
    _shown: Mapping[str, str] = {}  # URLs with parts from the environment, as they may be shown

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> Any:
        made = handler(schema)
        shown = handler.resolve_ref_schema(made).get("properties", {})
        for name, field in described(cls).items():
            if field.description and (key := field.alias or name) in shown:
                shown[key].setdefault("description", field.description)
        return made

    def hide(self, fields: Iterable[str]) -> None:
        """Keeps these fields' values out of `repr`; the loader names those that were filled from a secret."""
        self._hidden = self._hidden.union(fields)

    def hides(self, field: str) -> bool:
        """Whether this field's value holds a secret, so that nothing may show it."""
        return field in self._hidden or is_credential(field)

    def visible(self, field: str) -> str:
        """What to show of a field in an address: its text, or the texts of a list, or `****`."""
        value = getattr(self, field)
        return HIDDEN if self.hides(field) else ",".join(value) if isinstance(value, list) else str(value)

    def show_as(self, texts: Mapping[str, str]) -> None:
        """Sets what to show instead of these fields' values: for URLs with parts from the environment."""
        self._shown = {**self._shown, **texts}

    def shown(self, field: str) -> str | None:
        """What to show instead of a text; None to show the text itself."""
        return self._shown.get(field)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        args = super().__repr_args__()
        return [(k, v if v is None else self._shown_in_repr(k or "", v)) for k, v in args]

    def _shown_in_repr(self, field: str, value: Any) -> Any:
        return HIDDEN if self.hides(field) or field in _MAY_HOLD_SOME else self._shown.get(field, value)
