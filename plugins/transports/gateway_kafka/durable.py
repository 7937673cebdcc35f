"""The plugin's durable names: consumer groups, and topics of channels. A config without Kafka imports no models."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gateway_core.contract.durable import Contents, DurableName, Noted, channels, login_for, sources

if TYPE_CHECKING:
    from gateway_core.contract.config_model import GatewayConfig

    from .admin import Admin

T = TypeVar("T")

_LIMIT_S = 20.0
GROUP, TOPIC = "consumer group", "Kafka topic"


def names(config: GatewayConfig, noted: Sequence[Noted]) -> Iterator[DurableName]:
    """See `DurableNames`."""
    for use in sources(config, "kafka"):
        o: Any = use.ref.options
        group = o.group_of(use.entry)
        yield DurableName(
            transport="kafka",
            what=GROUP,
            where=_cluster(o),
            name=group,
            owner=use.owner,
            facts={"topics": [*o.topics] if not o.hides("topics") else []},
            place=use.place,
            keeps=f"group: {group}",
            said=o.group is not None,
        )
    for use in channels(config, "kafka"):
        o = use.ref.options
        topic = o.topic_of(use.entry)
        yield DurableName(
            transport="kafka",
            what=TOPIC,
            where=_cluster(o),
            name=topic,
            owner=use.owner,
            place=use.place,
            keeps=f"topic: {topic}",
        )
        for name, trigger in config.triggers.items():
            if trigger.broker == use.entry:
                yield DurableName(
                    transport="kafka",
                    what=GROUP,
                    where=_cluster(o),
                    name=o.group_of(use.entry, name),
                    owner=f"triggers.{name}",
                    facts={"topics": [topic]},
                    place=("triggers", name),
                )


def _cluster(options: object) -> str:
    return f"kafka://{options.visible('bootstrap')}"  # type: ignore[attr-defined]


def remove(name: DurableName, config: GatewayConfig, data_dir: Path) -> None:
    """See `DurableNames`: deletes a group at the cluster."""
    from .group_history import forget

    if name.what == TOPIC:
        raise OSError("it holds events: delete it with Kafka's own tools once nothing needs them")

    async def delete(admin: Admin) -> None:
        await admin.delete_group(name.name)

    _asked(name, config, delete)
    forget(data_dir, name.name)


def look(name: DurableName, config: GatewayConfig, data_dir: Path) -> Contents:
    """See `DurableNames`. A group that has committed nothing has nothing."""
    if name.what == TOPIC:
        return Contents()

    async def count(admin: Admin) -> Contents:
        from .offsets import waiting

        members = await admin.members(name.name)
        return Contents(await waiting(admin, name.name, name.facts["topics"]), ", ".join(sorted(set(members))))

    return _asked(name, config, count)


def _asked(name: DurableName, config: GatewayConfig, ask: Callable[[Admin], Awaitable[T]]) -> T:
    """Asks the cluster of a name. Raises `OSError` with the reason."""
    import anyio

    from .admin import Admin
    from .client import KafkaFault
    from .client_config import KafkaConfig

    options = login_for(config, KafkaConfig, _cluster, name) or KafkaConfig.model_validate(
        {"bootstrap": name.where.partition("://")[2]}
    )

    async def run() -> T:
        with anyio.fail_after(_LIMIT_S):
            async with Admin(options) as admin:
                return await ask(admin)

    try:
        return anyio.run(run)
    except KafkaFault as e:
        raise OSError(str(e)) from e
    except TimeoutError:
        raise OSError(f"no answer within {_LIMIT_S:g} s") from None
