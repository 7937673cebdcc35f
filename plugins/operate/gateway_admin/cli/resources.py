"""`tidegate get`, `delete`, `pause`, `resume` and `reload`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gateway_api.client.remote import Declined, remote
from gateway_api.shown import as_yaml
from gateway_terminal.tables import print_table

from gateway_core.contract.cli import common
from gateway_core.contract.cli.exit_codes import OK
from gateway_core.contract.errors import ConfigError
from gateway_core.contract.one_line import one_line

Resource = dict[str, Any]
Column = tuple[str, Callable[[Resource], Any]]


def get(section: str, name: str | None, output: str | None, admin: str | None, data_dir: Path | None) -> int:
    """Shows resources; returns the exit code."""
    with remote(admin, data_dir) as gateway:
        found = gateway.ask("GET", section, *([name] if name else []))
    if output == "json":
        common.print_json(found)
    elif output == "yaml":
        print(as_yaml(found), end="")
    else:
        _table(section, [found] if name else found["items"], wide=output == "wide")
    return OK


def delete(name: str, admin: str | None, data_dir: Path | None) -> int:
    """Deletes a trigger."""
    with remote(admin, data_dir) as gateway:
        gateway.ask("DELETE", "triggers", name)
    print(f"trigger {name} deleted")
    return OK


def pause(name: str, admin: str | None, data_dir: Path | None, *, resume: bool) -> int:
    """Pauses or resumes a trigger."""
    with remote(admin, data_dir) as gateway:
        gateway.ask("POST", "triggers", name, "resume" if resume else "pause")
    print(f"trigger {name} {'resumed' if resume else 'paused'}")
    return OK


def reload(admin: str | None, data_dir: Path | None) -> int:
    """Makes the gateway read its config again; shows faults like `tidegate check`."""
    try:
        with remote(admin, data_dir) as gateway:
            done = gateway.ask("POST", "reload")
    except Declined as e:
        if e.faults:
            raise ConfigError(e.faults) from e
        raise
    print(f"config read again: generation {done['generation']}")
    return OK


# -- tables -------------------------------------------------------------------------------------------------------


def _table(section: str, items: Sequence[Resource], *, wide: bool) -> None:
    columns = [*_FIRST, *_COLUMNS[section], *(_WIDE[section] if wide else [])]
    if any(_ready(item)["status"] != "True" for item in items):
        columns.append(("message", lambda item: one_line(_ready(item)["message"] or "", 200)))
    rows = [[value(item) for _, value in columns] for item in items]
    print_table(section.capitalize(), [title for title, _ in columns], rows)


def _ready(item: Resource) -> Resource:
    found: Resource = next(c for c in item["status"]["conditions"] if c["type"] == "Ready")
    return found


def _state(key: str) -> Callable[[Resource], Any]:
    return lambda item: item["status"].get(key) or ""


def _names(key: str) -> Callable[[Resource], Any]:
    return lambda item: one_line(", ".join(item["status"][key]), 200)


def _count(key: str) -> Callable[[Resource], Any]:
    return lambda item: item["status"]["counts"][key]


def _generation(item: Resource) -> str:
    wanted, runs = item["metadata"]["generation"], item["status"]["observedGeneration"]
    return str(wanted) if wanted == runs else f"{wanted} (runs: {runs or 'none'})"


def _origin(item: Resource) -> str:
    origin = item["metadata"].get("origin")
    if origin is None:
        return ""
    return "applied" if origin["applied"] else f"{origin['file']}:{origin['line']}"


_FIRST: list[Column] = [
    ("name", lambda item: item["metadata"]["id"]),
    ("ready", lambda item: _ready(item)["status"]),
    ("reason", lambda item: _ready(item)["reason"]),
    ("since", lambda item: _ready(item)["lastTransitionTime"].partition(".")[0] + "Z"),
]
_COLUMNS: dict[str, list[Column]] = {
    "brokers": [("address", lambda item: (item["status"]["address"] or {}).get("url", ""))],
    "triggers": [("broker", lambda item: item["spec"]["broker"]), ("subscriber", _state("subscriberUri"))],
    "bridges": [("source", _state("sourceUri")), ("sink", _state("sinkUri"))],
    "policies": [("brokers", _names("brokers")), ("from", _names("from"))],
}
_LAST: list[Column] = [("generation", _generation), ("dead letter", _state("deadLetterSinkUri"))]
_WIDE: dict[str, list[Column]] = {
    "brokers": [("channel", _state("channel")), ("accepted", _count("accepted")), *_LAST],
    "triggers": [("delivered", _count("delivered")), ("lag", _count("lag")), ("from", _origin), *_LAST],
    "bridges": [("delivered", _count("delivered")), ("lag", _count("lag")), *_LAST],
    "policies": [("generation", _generation)],
}
