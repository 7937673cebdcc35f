"""A component is a kind, a name, one sentence, a config model and a constructor. Checks, `tidegate plugins`, the editor
schema and the reference pages are derived from these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from .errors import StartError
from .owner import within

if TYPE_CHECKING:
    from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

    from .clock import Clock
    from .config_node import Place
    from .event_data import UnreadableData
    from .options import Config as Config


def __getattr__(name: str) -> Any:
    """`Config` is imported on first use: a command is found without pydantic, which takes longer than all the rest."""
    if name == "Config":
        from .options import Config

        return Config
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


TRACE_HEADERS = (b"traceparent", b"tracestate")
"""W3C Trace Context."""

Kind = Literal[
    "source", "sink", "channel", "codec", "filter", "key_mapper", "dead_letter", "observer", "authenticator", "client"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantees:
    """The capability card of a source, a sink or a channel: what it promises, in short sentences for people.

    `delivery`      how often an event arrives; if options change that, `redelivery` says so.
    `acknowledged`  when a sender or server hears that its event is safe; of a sink, what counts as delivered.
    `redelivery`    when the same event comes, or goes out, again.
    `order`         the order it keeps.
    `workers`       of several workers, where it runs: in "all", each with events of its own; in all, each with the
                    "share" that the server gives it; in "one"; "one or share" if its options decide.
    `back_pressure` what happens to further events while some can't be stored or delivered.
    `modes`         the content modes it reads or writes, `binding` the rules for them: a specification, or a page.
    `credentials`   how it proves who it is, or learns who sends.
    `deduplicates`  of a channel: whether it can store events with the same key once (`Deduplicates`).
    """

    delivery: Literal["at least once", "exactly once", "at most once"]
    acknowledged: str
    redelivery: str
    order: str
    workers: Literal["all", "share", "one", "one or share"]
    back_pressure: str
    binding: str
    modes: Sequence[Literal["binary", "structured", "batch"]] = ()
    credentials: str = "none"
    deduplicates: Literal["", "yes", "no"] = ""


@dataclass(frozen=True, slots=True)
class OwnMetric:
    """A metric whose numbers a component counts itself (`gateway_core.contract.capabilities.Measured`).

    `name`  unique, with the component's word after `tidegate_`; that of a counter ends with `_total`. Base units.
    `type`  a counter only grows. The numbers of several workers, and of several components at one place, are added up.
    `help`  one sentence.
    `by`    one more label, "" for none.
    """

    name: str
    type: Literal["counter", "gauge"]
    help: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class Component:
    """The descriptor that a plugin offers.

    `name`         the word that a config uses; unique within its kind.
    `summary`      one sentence for lists and pages.
    `config`       the model of its options (a `RootModel` if that is a single value or a free mapping, as in `cesql:
                   "..."`), or a function that imports and returns it. Use `model`, which is the model in both cases.
    `build`        constructor: (validated options, BuildContext) -> the object that the kind's protocol names
                   (`gateway_core.contract.interfaces`). Client libraries are imported in here, never at plugin import.
    `extra`        the extra that installs its library ("kafka"), "" for none.
    `schemes`      URL schemes that stand for it: `subscriber: http://host/` means `{http: {url: ...}}`.
    `requires`     top-level modules that `build` will import; `tidegate plugins` shows what is missing.
    `guarantees`   what a source, a sink or a channel promises; `tidegate plugins NAME` shows it.
    `metrics`      those of its own, if it is `Measured`.
    """

    name: str
    summary: str
    config: type[BaseModel] | Callable[[], type[BaseModel]]
    build: Callable[[Any, BuildContext], Any]
    extra: str = ""
    schemes: Sequence[str] = ()
    requires: Sequence[str] = ()
    guarantees: Guarantees | None = None
    metrics: Sequence[OwnMetric] = ()

    @property
    def model(self) -> type[BaseModel]:
        """The model of its options, imported at first use. Raises `StartError` if that fails."""
        if isinstance(self.config, type):
            return self.config
        try:
            return self.config()
        except Exception as e:
            raise StartError(f"the options of {self.name!r} can't be imported: {type(e).__name__}: {e}") from e


@dataclass(frozen=True, slots=True)
class Transport:
    """A source, a sink, or both, under one name."""

    name: str
    source: Component | None = None
    sink: Component | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """A command that a plugin adds to the `tidegate` command line.

    `name`    the word after `tidegate`.
    `summary` one sentence for the list of commands.
    `load`    returns the typer app, or the function of a single command. It runs when the command is used; its module
              is imported in here.
    `panel`   the heading under which `tidegate --help` lists it: one of `gateway_core.cli.lazy.PANELS`, or another.
    """

    name: str
    summary: str
    load: Callable[[], Any]
    panel: str = "Commands of plugins"


@dataclass(frozen=True, slots=True)
class Binding:
    """How a transport carries events: everything that a codec needs to know about it.

    `name`       the transport's word.
    `prefix`     the prefix of attribute names in header names; b"" if the transport uses the plain names (MQTT).
    `percent`    whether values are percent-encoded (CloudEvents HTTP binding section 3.1.3.2).
    `title`      the specification's name and version, as refusals cite it ("HTTP binding 1.0.2"), and `sections` where
                 it says what: "mode" (which content mode a message is in), "attributes", "structured".
    `reserved`   names of headers, in lower case, that are the transport's own and never an attribute. An event with
                 an attribute whose header would have such a name is written in structured mode.
    `trace`      the headers in which this hop's own trace context travels (`gateway_core.contract.tracing`), None if it
                 does not. Where they would be read as attributes they are reserved too, so the two never mix.
    `folds_case` whether the names of headers know no case.
    `batches`    whether a message may hold a batch.
    `answers`    whether the sender waits for an answer, and gets an error if the event format is unknown. Other
                 transports forward such a message unchanged.
    `empty_is_none` whether the transport does not distinguish an empty body from a missing one.

    A transport keeps the content type of its messages in the header `content-type`, whatever its own place for it is.
    """

    name: str
    prefix: bytes
    percent: bool
    title: str = ""
    sections: Mapping[str, str] = field(default_factory=dict, compare=False)
    reserved: frozenset[bytes] = frozenset()
    trace: tuple[bytes, bytes] | None = TRACE_HEADERS
    folds_case: bool = False
    batches: bool = False
    answers: bool = False
    empty_is_none: bool = False


class ComponentRef:
    """A place in a config that names a component: `name`, `{name: options}` or, for sinks, a URL.

    After loading, `options` is the component's validated model. One subclass for each kind, used as the type of a
    field in a config model; nested components are found, checked and documented through it.
    """

    kind: ClassVar[Kind]
    __slots__ = ("name", "options", "raw")
    __hash__ = None  # type: ignore[assignment]  # pydantic copies an unhashable default; `options` is set on the copy

    def __init__(self, name: str, raw: Any = None, options: BaseModel | None = None) -> None:
        self.name = name
        self.raw = raw
        self.options = options

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def __deepcopy__(self, memo: Any) -> ComponentRef:
        return type(self)(self.name, self.raw, self.options)

    def __eq__(self, other: object) -> bool:
        """Whether both name the same component with the same options."""
        if not isinstance(other, ComponentRef):
            return NotImplemented
        return (self.kind, self.name, self.options) == (other.kind, other.name, other.options)

    @classmethod
    def parse(cls, value: Any) -> ComponentRef:
        """Reads `name`, `{name: options}` or a URL; anything else is a fault of type `component`."""
        if isinstance(value, ComponentRef):
            return value
        if isinstance(value, str) and value:
            if "://" in value:
                return cls("", value)  # the registry knows whose scheme it is
            return cls(value)
        if isinstance(value, dict) and len(value) == 1:
            ((name, raw),) = value.items()
            if isinstance(name, str) and name:
                return cls(name, raw)
        from pydantic_core import PydanticCustomError

        raise PydanticCustomError("component", "names no component: write a name, or one name with its options")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(cls.parse)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"x-tidegate": cls.kind}  # becomes a reference in the schema for editors


class SourceRef(ComponentRef):
    kind = "source"


class SinkRef(ComponentRef):
    kind = "sink"


class DeadLetterRef(ComponentRef):
    """A dead-letter component, or any sink."""

    kind = "dead_letter"


class ChannelRef(ComponentRef):
    kind = "channel"


class CodecRef(ComponentRef):
    kind = "codec"


class FilterRef(ComponentRef):
    kind = "filter"


class KeyMapperRef(ComponentRef):
    kind = "key_mapper"


class ObserverRef(ComponentRef):
    kind = "observer"


class AuthenticatorRef(ComponentRef):
    kind = "authenticator"


class ClientRef(ComponentRef):
    """One of the client libraries with which a transport can reach its servers."""

    kind = "client"


class ComponentBuilder(Protocol):
    """Builds components by their names in a config. The registry is one."""

    def build(self, ref: ComponentRef, context: BuildContext) -> Any:
        """Calls a component's constructor. Raises `MissingExtra` or `StartError`, naming the owner in the config."""


@dataclass(frozen=True, slots=True)
class BuildContext:
    """What a constructor gets besides its options.

    `owner`       the path in the config of what is being built ("triggers.late.subscriber"): names the owner in errors
                  and the log, where it is the present path of a source that a reload moved (`Owner`). Make no name of
                  it that must last.
    `data_dir`    where the gateway keeps its state; make a sub-folder named after the component.
    `place`       the same path as a value, `("triggers", "late", "subscriber")`; () for a component inside another one.
    `clock`       time and timers; a fake one in tests.
    `registry`    all components that are installed; `context.build(ref)` is the way to use it.
    `worker`      number of this worker process, from 0; `workers` is how many there are.
    `binding`     for codecs: how the transport that they serve carries events. A source or sink sets it when it builds
                  its codec (`context.build(ref, "codec", binding=...)`).
    `wants_reply` for sinks: True if a reply event will be processed (a trigger's subscriber).
    `broker`      the broker (or bridge) that the component belongs to, and `trigger` the trigger, "" for none.
    `offline`     True if the component is only inspected (`tidegate test`, `explain`): it is never started, and must
                  not need files such as certificates.
    `names`       durable names of components by their places (`gateway_core.contract.durable`).
    `unreadable`  for filters: where one that looks at data counts events whose data it can't read; None: nowhere.
    `traces`      True if the gateway traces: sources and channels then set `Event.trace` from what their transport
                  carries (`gateway_core.contract.tracing`).
    """

    owner: str
    data_dir: Path
    clock: Clock
    registry: ComponentBuilder
    worker: int = 0
    workers: int = 1
    binding: Binding | None = None
    wants_reply: bool = False
    broker: str = ""
    trigger: str = ""
    traces: bool = False
    offline: bool = False
    place: Place = ()
    names: Mapping[Place, str] = field(default_factory=dict)
    unreadable: UnreadableData | None = None

    def build(self, ref: ComponentRef, part: str = "", **changes: Any) -> Any:
        """Builds a nested component (a sink's codec, a filter's operands) with this context, or one with `changes`."""
        from dataclasses import replace

        owner = within(self.owner, f".{part}") if part else self.owner
        return self.registry.build(ref, replace(self, owner=owner, place=(), **changes))
