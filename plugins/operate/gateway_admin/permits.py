"""What a trigger may reach that is applied by the admin API.

Config files belong to whoever runs the gateway. A trigger that comes by the API does not: it may name only components
and options that are listed here, paths only below allowed folders, and nothing of the environment. What is not listed
is refused, so a new component or option is closed until someone has thought about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, RootModel

from gateway_core.contract.annotations import written_refs
from gateway_core.contract.component import ComponentRef, Config
from gateway_core.contract.config_extension import ConfigFinding
from gateway_core.contract.config_model import TriggerConfig
from gateway_core.contract.config_node import Node, Place, dotted
from gateway_core.contract.errors import Fault

from .link_local import is_metadata_host
from .places import places

if TYPE_CHECKING:
    from gateway_core.contract.components import Components
    from gateway_core.contract.config_model import GatewayConfig

SECTION = "apply"
ENTRY = "allow"
FILES = "files"
"""The folder in the data directory where applied triggers may always read and write."""


class PermitsConfig(Config):
    """What triggers that are applied by the admin API may reach beyond what is always allowed."""

    folders: list[Path] = []
    """Folders in which they may read and write files. The folder `files` in the data directory is always allowed."""
    components: list[str] = []
    """Names of components that they may use with all options, such as those of other plugins. Who may apply then has
    the rights of these options."""
    environment: list[str] = []
    """Environment variables that they may use (`${NAME}`)."""
    secrets: list[str] = []
    """Secrets that they may use (`${secret:NAME}`)."""


_ALL = frozenset({"*"})
_COMMON = {"codec", "key", "request_timeout_s", "connect_timeout_s", "timeout_s", "max_in_flight"}


def _options(words: str) -> frozenset[str]:
    return frozenset({*_COMMON, *words.split()})


COMPONENTS: Mapping[str, Mapping[str, frozenset[str]]] = {
    "sink": {
        "deadletter": _options("path fsync encrypt"),
        "file": _options("path fsync"),
        "fn": _options("function version deadline_s"),
        "http": _options("url client batch headers max_connections tls probe webhook credentials"),
        "kafka": _options(
            "bootstrap client client_id tls sasl topic linger_ms batch_bytes max_record_bytes compression "
            "delivery_timeout_s"
        ),
        "mqtt": _options("server version username password tls keep_alive_s will topic qos retain expiry_s client_id"),
        "nats": _options(
            "servers user password token nkey_file credentials_file tls tls_first client_name inbox_prefix domain "
            "subject jetstream stream create message_id"
        ),
        "rabbitmq": _options(
            "server vhost username password login tls heartbeat_s exchange exchange_type queue routing_key headers "
            "persistent mandatory unroutable max_message_bytes"
        ),
        "redis": _options("servers cluster sentinel db username password tls stream trim wait_replicas wait_timeout_s"),
        "stdout": _options(""),
        # only as a client: a listener would open a port
        "websocket": _options(
            "url acknowledge token headers credentials client_tls max_message_bytes ping_interval_s ping_timeout_s"
        ),
    },
    "client": dict.fromkeys(("aiokafka", "confluent"), _ALL),
    "codec": dict.fromkeys(("cloudevents", "fn", "webhook"), _ALL),
    "filter": dict.fromkeys(("all", "any", "cesql", "data", "exact", "not", "prefix", "sql", "suffix"), _ALL),
    "key_mapper": dict.fromkeys(("attribute", "header", "jsonpath", "none", "partitionkey", "record"), _ALL),
}
"""The options of each component that an applied trigger may set, by kind and name. Missing on purpose: `spark` (its
`conf` runs code), `pull` (it opens a port)."""


def permits_of(config: GatewayConfig, data_dir: Path) -> Permits:
    """The rule that a config sets."""
    return Permits(config.section(SECTION).get(ENTRY), data_dir)


class Permits:
    """The rule of one gateway. `config` is the entry of the config, None without one."""

    def __init__(self, config: PermitsConfig | None, data_dir: Path) -> None:
        self._config = config or PermitsConfig()
        self._folders = [folder.resolve() for folder in (data_dir / FILES, *self._config.folders)]
        self._first = data_dir / FILES

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """What of the environment may be used."""
        return {name: env[name] for name in self._config.environment if name in env}

    def texts(self, node: Node, path: Place = ()) -> Iterator[Fault]:
        """Faults of a document as it is written: what its text may not be filled with."""
        value = node.value
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from self.texts(inner, (*path, key))
        elif isinstance(value, list):
            for i, inner in enumerate(value):
                yield from self.texts(inner, (*path, i))
        elif isinstance(value, str):
            for inside in places(value):
                yield from self._place(inside, node, path)

    def _place(self, inside: str, node: Node, path: Place) -> Iterator[Fault]:
        secret = inside.startswith("secret:")
        name = inside.removeprefix("secret:") if secret else inside.partition(":-")[0]
        if name in (self._config.secrets if secret else self._config.environment):
            return
        what, option = ("secret", "secrets") if secret else ("environment variable", "environment")
        text = f"a trigger that is applied may not use the {what} `{name}`"
        remedy = f"{_remedy(option, name)}, or put the trigger in a file"
        yield Fault(text, dotted(path), "", node.line, remedy)

    def faults(self, trigger: BaseModel, path: Place) -> Iterator[ConfigFinding]:
        """Faults of a trigger whose components have their options."""
        yield from self._value(trigger, path)

    def _value(self, value: Any, path: Place) -> Iterator[ConfigFinding]:
        if isinstance(value, ComponentRef):
            yield from self._component(value, path)
        elif isinstance(value, RootModel):
            yield from self._value(value.root, path)
        elif isinstance(value, BaseModel):
            for name, field in type(value).model_fields.items():
                yield from self._value(getattr(value, name), (*path, field.alias or name))
        elif isinstance(value, Path):
            yield from self._path(value, path)
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                yield from self._value(inner, (*path, str(key)))
        elif isinstance(value, list | tuple | set | frozenset):
            for i, inner in enumerate(value):
                yield from self._value(inner, (*path, i))
        elif isinstance(value, str) and is_metadata_host(value):
            text = "a trigger that is applied may not send to link-local addresses and metadata services"
            yield ConfigFinding(text, path, "put the trigger in a file")

    def names(self, trigger: Any, path: Place, registry: Components) -> Iterator[ConfigFinding]:
        """Faults of a trigger as plain values, by the names of its components alone. What checks the options of a
        component may already read the files that they name."""
        yield from self._names(TriggerConfig, trigger, path, registry)

    def _names(self, model: Any, value: Any, path: Place, registry: Components) -> Iterator[ConfigFinding]:
        for ref, at in written_refs(model, value, path):
            name = ref.name or registry.by_scheme(ref.kind, ref.raw)
            offer = registry.find(ref.kind, name) if name else None
            if name is None or offer is None:
                continue  # a fault of the config
            if self._allowed(ref.kind, name) is None:
                yield self._unlisted(ref.kind, name, at)
            else:
                yield from self._names(offer.component.model, ref.raw, (*at, name), registry)

    def _allowed(self, kind: str, name: str) -> frozenset[str] | None:
        """The options of a component that may be set; None if it may not be used."""
        if name in self._config.components:
            return _ALL
        return COMPONENTS.get("sink" if kind == "dead_letter" else kind, {}).get(name)

    def _unlisted(self, kind: str, name: str, path: Place) -> ConfigFinding:
        text = f"a trigger that is applied may not use the {kind.replace('_', ' ')} `{name}`"
        return ConfigFinding(text, path, f"put the trigger in a file, or {_remedy('components', name)}")

    def _component(self, ref: ComponentRef, path: Place) -> Iterator[ConfigFinding]:
        options, at = ref.options, (*path, ref.name)
        allowed = self._allowed(ref.kind, ref.name)
        if allowed is None:
            yield self._unlisted(ref.kind, ref.name, path)
            return
        if not isinstance(options, BaseModel):
            return
        if allowed is _ALL:
            yield from self._value(options, at)
            return
        for name, field in type(options).model_fields.items():
            option, value = field.alias or name, getattr(options, name)
            if option in allowed:
                yield from self._value(value, (*at, option))
            elif name in options.model_fields_set and value != field.get_default(call_default_factory=True):
                text = f"a trigger that is applied may not set `{option}` of `{ref.name}`"
                yield ConfigFinding(
                    text, (*at, option), f"put the trigger in a file, or {_remedy('components', ref.name)}"
                )

    def _path(self, value: Path, path: Place) -> Iterator[ConfigFinding]:
        try:
            found = value.resolve()
        except (OSError, ValueError, RuntimeError):
            found = None
        if found is None or not any(found.is_relative_to(folder) and found != folder for folder in self._folders):
            text = f"a trigger that is applied may not use the file {value}"
            remedy = f"name one in {self._first}, put the trigger in a file, or {_remedy('folders', str(value.parent))}"
            yield ConfigFinding(text, path, remedy)


def _remedy(option: str, value: str) -> str:
    return f"allow it in a config file: `{SECTION}: {{{ENTRY}: {{{option}: [{value}]}}}}`"
