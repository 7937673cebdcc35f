"""The catalogue as documents for other tools: AsyncAPI 3.0.0, and JSON Schema (draft 2020-12)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from gateway_core.contract.status import GatewayStatus

from .catalogue import Catalogue, TypeSeen

ASYNCAPI = "3.0.0"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_FORMATS = {"source": "uri-reference", "time": "date-time", "dataschema": "uri"}


def json_schema(name: str, found: TypeSeen) -> dict[str, Any]:
    """The schema of the data of a type."""
    return {"$schema": DIALECT, "title": name, "description": _observed(found), **found.schema}


def _observed(found: TypeSeen) -> str:
    cut = " Some of the data had more fields than are kept." if found.shape.budget.cut else ""
    return f"Observed in {found.json} of {found.samples} samples, among {found.count} events.{cut}"


def asyncapi(
    catalogue: Catalogue, status: GatewayStatus, *, data: bool = True, hidden: Iterable[str] = ()
) -> dict[str, Any]:
    """An AsyncAPI document: brokers are channels, types are messages. Without `data` it has neither schemas of data
    nor examples; values of the `hidden` attributes are left out."""
    ids = _ids(catalogue.types)
    messages = {ids[name]: _message(name, found, data, set(hidden)) for name, found in catalogue.types.items()}
    names = dict.fromkeys(name for found in catalogue.types.values() for name in found.brokers)
    channels, operations, servers = {}, {}, {}
    for broker, channel in _ids(names).items():
        own = [ids[name] for name, found in catalogue.types.items() if broker in found.brokers]
        of_it = _servers(channel, status, broker)
        servers.update(of_it)
        channels[channel] = {
            "title": broker,
            "address": None,
            "messages": {id_: {"$ref": f"#/components/messages/{id_}"} for id_ in own},
            **({"servers": [{"$ref": f"#/servers/{server}"} for server in of_it]} if of_it else {}),
        }
        operations[f"receive-{channel}"] = {
            "action": "receive",
            "title": f"Send events to {broker}",
            "channel": {"$ref": f"#/channels/{channel}"},
            "messages": [{"$ref": f"#/channels/{channel}/messages/{id_}"} for id_ in own],
        }
    return {
        "asyncapi": ASYNCAPI,
        "info": {
            "title": "Events of a Tidegate gateway",
            "version": f"0.0.{status.config.generation}",
            "description": "What the gateway has seen, not what it allows. Headers are named as in the CloudEvents "
            "HTTP binding; Kafka has `ce_` in place of `ce-`.",
        },
        "defaultContentType": "application/json",
        "servers": servers,
        "channels": channels,
        "operations": operations,
        "components": {"messages": messages},
    }


def _message(name: str, found: TypeSeen, data: bool, hidden: set[str]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": name,
        "title": name,
        "summary": f"Seen {found.count} times from {len(found.sources)} sources."
        if len(found.sources) != 1
        else f"Seen {found.count} times from one source.",
        "headers": _headers(name, found, hidden),
    }
    if len(found.media) == 1 and "datacontenttype" not in hidden:
        made["contentType"] = next(iter(found.media))
    if not data:
        return made
    if found.json:
        made["payload"] = {"description": _observed(found), **found.schema}
    if found.example is not None and "data" in found.example and found.json:
        headers = {f"ce-{key}": value for key, value in attributes(found.example).items() if key not in hidden}
        made["examples"] = [{"name": "newest", "headers": headers, "payload": found.example["data"]}]
        if not isinstance(found.example["data"], dict | list | str | int | float | bool):
            del made["examples"]
    return made


def _headers(name: str, found: TypeSeen, hidden: set[str]) -> dict[str, Any]:
    """The attributes as headers (CloudEvents HTTP binding 1.0.2, section 3.1.3)."""
    properties: dict[str, Any] = {}
    for attribute, kinds in found.attributes.items():
        if attribute == "datacontenttype":  # it is the content type
            continue
        types = sorted(kinds)
        made: dict[str, Any] = {"type": types[0] if len(types) == 1 else types}
        if attribute in _FORMATS and types == ["string"]:
            made["format"] = _FORMATS[attribute]
        if attribute == "type" and attribute not in hidden:
            made["const"] = name
        properties[f"ce-{attribute}"] = made
    required = [f"ce-{attribute}" for attribute in found.required() if attribute != "datacontenttype"]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def attributes(event: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of an event in CloudEvents JSON."""
    left_out = ("data", "data_base64", "datacontenttype")
    return {name: value for name, value in event.items() if name not in left_out}


def _servers(channel: str, status: GatewayStatus, broker: str) -> dict[str, Any]:
    """The ingresses of a broker that have an address with a host."""
    own = next((each for each in status.brokers if each.name == broker), None)
    made = {}
    for number, address in enumerate(own.ingress if own is not None else []):
        url = urlsplit(address)
        if url.scheme and url.netloc:
            host = url.netloc.rpartition("@")[2]
            path = {"pathname": url.path} if url.path else {}
            made[f"{channel}-{number}"] = {"host": host, "protocol": url.scheme, **path}
    return made


def _ids(names: Iterable[str]) -> dict[str, str]:
    """Each name's key in the document (AsyncAPI 3.0.0, "Components Object": letters, digits and `.-_`), all
    different."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:100] or "_"
        id_, number = plain, 2
        while id_ in taken:
            id_, number = f"{plain}_{number}", number + 1
        taken.add(id_)
        found[name] = id_
    return found
