"""`${ENV}`, `${ENV:-default}`, `${secret:NAME}` and `$${` in the text of a config."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .config_node import Node, Place
from .config_yaml import scalar
from .faults import near
from .options import HIDDEN, remember

Report = Callable[[str, Place, str], None]
"""Takes a fault: message, place, remedy."""

_PLACE = re.compile(r"\$(\$\{|\{([^{}]*)\}|\{)")
_BEHIND_HOST = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*[/?#]")
"""The begin of a URL, to its path or query. User and password in front of a host are never shown."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Secrets:
    """Secrets by name, and the places that use them. `read` gets a value on first use, or reports why and gets None."""

    def __init__(self, names: Iterable[str], read: Callable[[str], str | None]) -> None:
        self.uses: dict[str, list[Place]] = {name: [] for name in names}
        self._read = read
        self._values: dict[str, str | None] = {}

    def use(self, name: str, place: Place) -> str | None:
        """The value; None if it can't be read."""
        self.uses[name].append(place)
        if name not in self._values:
            value = self._values[name] = self._read(name)
            remember(value or "")
        return self._values[name]


class Interpolator:
    """Turns nodes into plain values, with `${…}` in their text filled in.

    `bad` collects the places whose value could not be made (it has a fault already), `secret` those whose text holds a
    secret, with the values of all in it: nothing may show them.
    """

    def __init__(self, env: Mapping[str, str], secrets: Secrets | None, report: Report) -> None:
        self._env = env
        self._secrets = secrets
        self._report = report
        self.bad: set[Place] = set()
        self.secret: dict[Place, list[str]] = {}
        self.shown: dict[Place, str] = {}  # URLs with parts from the environment behind their host, without these

    def plain(self, node: Node, path: Place) -> Any:
        """The node's value as dicts, lists and scalars."""
        value = node.value
        if isinstance(value, dict):
            return {k: self.plain(v, (*path, k)) for k, v in value.items()}
        if isinstance(value, list):
            return [self.plain(v, (*path, i)) for i, v in enumerate(value)]
        if isinstance(value, str) and "$" in value:
            return self._text(value, path, node.plain)
        return value

    def _text(self, text: str, path: Place, plain: bool) -> Any:
        parts: list[str] = []
        end = 0

        def fill(found: re.Match[str]) -> str:
            nonlocal end
            parts.append(text[end : found.start()])
            end = found.end()
            if found[1] == "${":
                parts.append("${")
                return "${"
            value = self._value(found[2], path)
            if value is None:
                self.bad.add(path)
            parts.append(HIDDEN if value and _BEHIND_HOST.search("".join(parts)) else value or "")
            return value or ""

        filled = _PLACE.sub(fill, text)
        if (shown := "".join(parts) + text[end:]) != filled:
            self.shown[path] = shown
        whole = _PLACE.fullmatch(text)
        # quotes mean text, as everywhere in YAML; a secret is text always
        if plain and whole and whole[2] is not None and path not in self.secret:
            return scalar(filled)
        return filled

    def _value(self, inner: str | None, path: Place) -> str | None:
        if inner is not None and inner.startswith("secret:"):
            return self._secret(inner[len("secret:") :], path)
        name, given, default = (inner or "").partition(":-")
        if not _NAME.fullmatch(name):
            written = "${" if inner is None else f"${{{inner}}}"
            remedy = "write `${NAME}`, `${NAME:-default}` or `${secret:NAME}`; `$${` for the text `${`"
            self._report(f"`{written}` names no environment variable", path, remedy)
            return None
        if name in self._env and (self._env[name] or not given):
            return self._env[name]
        if given:
            return default
        self._report(f"the environment variable `{name}` isn't set", path, f"set it, or write `${{{name}:-default}}`")
        return None

    def _secret(self, name: str, path: Place) -> str | None:
        if self._secrets is None:
            self._report("a secret can't be used here", path, "write `${NAME}` for an environment variable")
            return None
        if name not in self._secrets.uses:
            remedy = near(name, self._secrets.uses) or f"add `{name}` to `secrets`: `{name}: {{env: VARIABLE}}`"
            self._report(f"there is no secret `{name}`", path, remedy)
            return None
        value = self._secrets.use(name, path)
        self.secret.setdefault(path, []).append(value or "")
        return value
