"""Chooses how the plugin gets what it needs of aiokafka."""

from __future__ import annotations

import logging
from functools import cache

from aiokafka import __version__

from .needs import Ways
from .private.ways import PrivateWays
from .public import PublicWays
from .versions import unknown

_log = logging.getLogger("tidegate.kafka")


def ways() -> Ways:
    """The ways for the version of aiokafka that is installed."""
    return _chosen(unknown(__version__))


@cache
def _chosen(unknown: str) -> Ways:
    if not unknown:
        return PrivateWays()
    _log.warning(
        "%s: only public functions of aiokafka are used; each record costs more, recreated topics are not noticed, and"
        " `docs/discussion/aiokafka.md` has what else differs",
        unknown,
    )
    return PublicWays()
