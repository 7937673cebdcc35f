"""Tidegate's core: the event, the hook specifications, the config, delivery and the runtime. Everything else is a
plugin (`plugins/gateway_<name>`), including what ships with it."""

from importlib.metadata import version

__version__ = version("tidegate")
