"""Names that outlive a config: sessions, consumers, groups, queues and folders where events wait for a gateway.

Such a name comes from what its component reads, from the name of a broker, trigger or bridge, or from an option; never
from a place in a list, which an edit changes. A plugin offers `DurableNames` for its components. The gateway notes the
names of each config that it runs in its data directory, so that those which a config leaves behind are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from .component import ComponentRef
from .config_node import Place

if TYPE_CHECKING:
    from .config_model import GatewayConfig

Key = tuple[str, str, str, str]
NO_LOGIN = "no component of the config has this server: name a config that has one, for its login"
"""Why a name at a server that needs a login can't be removed."""
Login = TypeVar("Login")


@dataclass(frozen=True, slots=True, kw_only=True)
class DurableName:
    """A name that a component uses.

    `transport`  the component's word.
    `what`       what has the name ("consumer group").
    `where`      the server or the folder, without secrets.
    `name`       the name itself.
    `owner`      the entry of the config that has the component ("brokers.default").
    `facts`      what its removal needs, and what tells whose it is: JSON values, no secrets.
    `place`      the component's place in the config, () if it is in none.
    `keeps`      the option that keeps this name through an edit ("group: tidegate.default"); "" if there is none.
    `alone`      whether two components with this name would disturb each other.
    `said`       whether the config says the name, so that sharing it is meant.
    """

    transport: str
    what: str
    where: str
    name: str
    owner: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    place: Place = ()
    keeps: str = ""
    alone: bool = False
    said: bool = False

    @property
    def key(self) -> Key:
        """The key that identifies it."""
        return self.transport, self.what, self.where, self.name

    def __str__(self) -> str:
        return f"the {self.what} {self.name} ({self.where})"


@dataclass(frozen=True, slots=True)
class Noted:
    """A name that the data directory remembers. `used`: the config that ran last has it."""

    name: DurableName
    used: bool


@dataclass(frozen=True, slots=True)
class Contents:
    """What a name has now. `waiting`: how many events wait there, delivered and not acknowledged ones too; None if that
    can't be known. `users`: who reads from it now, in words; "" if nobody is known."""

    waiting: int | None = None
    users: str = ""


@dataclass(frozen=True, slots=True)
class DurableNames:
    """The durable names of one transport's components.

    `transport`  their word.
    `names`      those of a config: (config, what the data directory remembers) -> names. It decides alike in every
                 worker, and again when what it decided is remembered. Components at fault have no options.
    `remove`     removes one where it is: (name, config, data directory). The config is the one to take logins from.
                 Removing what is not there is no error. Raises `OSError` with the reason. None: `remedy` says what to
                 do instead.
    `look`       what one has now: (name, config, data directory). One that is not there is empty. Raises `OSError`.
                 None: nobody can tell.
    `earlier`    names in use by this data directory that no version has noted: (config, data directory) -> names.
    `waits`      whether something waits there that the config does not reach: (name, config, data directory). A name
                 where nothing waits is left behind without a word. None: nobody knows.
    `rescue`     what takes over what waits there, in words: (name, config, data directory).
    `only_by_name`  whether only who names it removes it: `--remove-all` leaves it.
    """

    transport: str
    names: Callable[[GatewayConfig, Sequence[Noted]], Iterable[DurableName]]
    remove: Callable[[DurableName, GatewayConfig, Path], None] | None = None
    remedy: str = ""
    earlier: Callable[[GatewayConfig, Path], Iterable[DurableName]] | None = None
    look: Callable[[DurableName, GatewayConfig, Path], Contents] | None = None
    waits: Callable[[DurableName, GatewayConfig, Path], bool] | None = None
    rescue: Callable[[DurableName, GatewayConfig, Path], str] | None = None
    only_by_name: bool = False


@dataclass(frozen=True, slots=True)
class Use:
    """A component of a config: its place, and the entry that has it by section and name."""

    place: Place
    ref: ComponentRef

    @property
    def entry(self) -> str:
        """The name of the broker, trigger or bridge."""
        return str(self.place[1])

    @property
    def owner(self) -> str:
        """As in `DurableName`."""
        return f"{self.place[0]}.{self.place[1]}"


def sources(config: GatewayConfig, word: str) -> Iterator[Use]:
    """The sources of this name that have options, of brokers and of bridges."""
    for name, broker in config.brokers.items():
        for i, ref in enumerate(broker.ingress):
            if ref.name == word and ref.options is not None:
                yield Use(("brokers", name, "ingress", i), ref)
    for name, bridge in config.bridges.items():
        if bridge.source.name == word and bridge.source.options is not None:
            yield Use(("bridges", name, "source"), bridge.source)


def channels(config: GatewayConfig, word: str) -> Iterator[Use]:
    """The channels of this name that have options."""
    for name, broker in config.brokers.items():
        if broker.channel.name == word and broker.channel.options is not None:
            yield Use(("brokers", name, "channel"), broker.channel)


def shared(names: Iterable[DurableName]) -> Iterator[tuple[DurableName, DurableName]]:
    """Pairs of components with one name: the first that has it, and each other."""
    first: dict[Key, DurableName] = {}
    for name in names:
        before = first.setdefault(name.key, name)
        if before is not name and before.place != name.place:
            yield before, name


def logins(config: GatewayConfig) -> Iterator[Any]:
    """The options of all sources, sinks, channels and dead letters: a removal takes from them how to reach a server."""
    from .config_walk import component_refs

    yield from (ref.options for _, ref in component_refs(config) if ref.options is not None)


def login_for(
    config: GatewayConfig, kind: type[Login], where: Callable[[Login], str], name: DurableName
) -> Login | None:
    """The first options of this kind in a config that reach the server of a name; None if there are none. `where` says
    which server options reach, as `DurableName.where` does."""
    return next((found for found in logins(config) if isinstance(found, kind) and where(found) == name.where), None)
