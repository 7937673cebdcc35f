"""Small plugins for the tests of the config, so that their expected reports depend on nothing else."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from gateway_access import plugin as access
from gateway_http import plugin as http
from gateway_knative import plugin as knative
from gateway_scenario import plugin as scenario
from gateway_serving.address import leads_to
from pydantic import AfterValidator, Field, RootModel

from gateway_core.config.registry import Registry
from gateway_core.contract.component import (
    BuildContext,
    CodecRef,
    Component,
    Config,
    FilterRef,
    KeyMapperRef,
    Transport,
)
from gateway_core.contract.hookspecs import hookimpl


def _url(text: str) -> str:
    if urlsplit(text).hostname is None:
        raise ValueError(f"{text!r} is not a valid URL: write http://HOST[:PORT]/PATH")
    return text


class TlsConfig(Config):
    """Certificates."""

    cert_file: str
    """The certificate chain, PEM."""
    verify: bool = True
    """False trusts any certificate."""


class HttpSourceConfig(Config):
    """Takes events by HTTP."""

    listen: str = "127.0.0.1:8080"
    """Address to listen on."""
    path: str = "/"
    """The path that events are posted to."""
    codec: CodecRef = CodecRef("cloudevents")
    """How requests become events."""
    tls: TlsConfig | None = None
    anonymous: bool | None = None
    """Serves HTTPS."""

    def receives(self, url: str) -> bool:
        return leads_to(url, self.listen, self.path)


class HttpSinkConfig(Config):
    """Delivers events by HTTP."""

    url: Annotated[str, AfterValidator(_url)]
    """Where events go."""
    codec: CodecRef = CodecRef("cloudevents")
    """How events become requests."""
    headers: dict[str, str] = {}
    """More header fields."""
    max_connections: Annotated[int, Field(ge=1, le=100)] = 10
    """The most connections at once."""
    tls: TlsConfig | None = None
    """Certificates."""


class QueueSourceConfig(Config):
    """Fetches events from a queue."""

    pulls: ClassVar[bool] = True

    topic: str
    """Its name."""


class QueueSinkConfig(Config):
    """Puts events into a queue."""

    topic: str
    """Its name."""
    key: KeyMapperRef = KeyMapperRef("none")
    """The record key."""
    limit: int | Literal["none"] = "none"
    """How many events it takes."""


class CodecConfig(Config):
    """Reads and writes CloudEvents."""

    mode: Literal["binary", "structured"] = "binary"
    """The content mode."""


class NoConfig(Config):
    """No options."""


class LogConfig(Config):
    """Keeps events on disk."""

    max_bytes: Annotated[int, Field(ge=1024)] = 1 << 30
    """The most that is kept."""


class ExactConfig(RootModel[dict[str, str]]):
    """Attributes and the values that they must have."""


class AllConfig(RootModel[Annotated[list[FilterRef], Field(min_length=1)]]):
    """Filters that must all match."""


class NotConfig(RootModel[FilterRef]):
    """A filter that must not match."""


class FussyConfig(Config):
    """Its check fails in an unforeseen way."""

    value: Annotated[str, AfterValidator(lambda v: {}[v])]
    """Anything."""


def _build(options: Any, context: BuildContext) -> Any:
    return options


class Plugin:
    """Offers all of the above."""

    @hookimpl
    def gateway_transports(self) -> list[Transport]:
        source = Component("http", "By HTTP.", HttpSourceConfig, _build)
        sink = Component("http", "By HTTP.", HttpSinkConfig, _build, schemes=("http", "https"))
        return [
            Transport("http", source, sink),
            Transport("stdout", sink=Component("stdout", "To standard output.", NoConfig, _build)),
            Transport(
                "queue",
                source=Component("queue", "From a queue.", QueueSourceConfig, _build),
                sink=Component("queue", "To a queue.", QueueSinkConfig, _build),
            ),
            Transport(
                "cloud",
                sink=Component("cloud", "To the cloud.", NoConfig, _build, extra="cloud", requires=("no_such_module",)),
            ),
            Transport("fussy", sink=Component("fussy", "Fails.", FussyConfig, _build)),
        ]

    @hookimpl
    def gateway_channels(self) -> list[Component]:
        return [Component("log", "On disk.", LogConfig, _build)]

    @hookimpl
    def gateway_codecs(self) -> list[Component]:
        return [Component("cloudevents", "CloudEvents.", CodecConfig, _build)]

    @hookimpl
    def gateway_filters(self) -> list[Component]:
        return [
            Component("exact", "Equal values.", ExactConfig, _build),
            Component("all", "All match.", AllConfig, _build),
            Component("not", "Does not match.", NotConfig, _build),
        ]

    @hookimpl
    def gateway_key_mappers(self) -> list[Component]:
        return [Component("none", "No key.", NoConfig, _build)]

    gateway_config_checks = staticmethod(http.gateway_config_checks)

    @hookimpl
    def gateway_dead_letters(self) -> list[Component]:
        return [Component("deadletter", "A file.", NoConfig, _build)]


def registry() -> Registry:
    """A registry of the small plugins, and of those that extend the config."""
    made = Registry()
    made.add("small", Plugin(), "tests")
    made.add("access", access, "tests")
    made.add("knative", knative, "tests")
    made.add("scenario", scenario, "tests")
    return made
