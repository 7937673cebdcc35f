"""Whether a broker, trigger or bridge is ready: what every part says of itself, in one shape."""

from __future__ import annotations

from typing import NamedTuple


class Condition(NamedTuple):
    """`ready` is None if it is not known yet. `message` is for people, empty if all is well; `reason` is one word for
    programs (Kubernetes' convention for conditions)."""

    ready: bool | None
    message: str
    reason: str
