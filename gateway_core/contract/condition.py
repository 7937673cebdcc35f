"""Whether a broker, trigger or bridge is ready: what every part says of itself, in one shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .config_model import TriggerConfig
from .config_node import Place


class Condition(NamedTuple):
    """`ready` is None if it is not known yet. `message` is for people, empty if all is well; `reason` is one word for
    programs (Kubernetes' convention for conditions)."""

    ready: bool | None
    message: str
    reason: str


def orphan_condition(config: TriggerConfig) -> Condition:
    """The condition of a trigger whose broker does not exist."""
    return Condition(False, f"broker {config.broker!r} does not exist", "BrokerNotFound")


def start_failure(failed: Mapping[Place, str], section: str, name: str) -> str:
    """Why a part of this entry could not be started by the last reload (`failed`), "" if all of it runs. A dead letter
    that could not be replaced does not count: the previous one is still in use."""
    mine = (text for place, text in failed.items() if place[:2] == (section, name) and place[2:] != ("dead_letter",))
    return next(mine, "")
