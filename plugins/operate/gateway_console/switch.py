"""Whether a gateway has a console (the environment variable `TIDEGATE_CONSOLE`), and where."""

from __future__ import annotations

import os

from gateway_core.contract.errors import Fault

ROOT = "/console"
VARIABLE = "TIDEGATE_CONSOLE"
"""`off` for a gateway without a console; the admin API stays as it is."""


def switched_on() -> bool:
    """Whether the console is on, as it is without the variable."""
    return os.environ.get(VARIABLE, "on") != "off"


def check_switch() -> list[Fault]:
    """The fault of a value that is neither `on` nor `off`."""
    if os.environ.get(VARIABLE, "on") in ("on", "off"):
        return []
    return [Fault("expected on or off", VARIABLE, remedy="write off for a gateway without a console")]
