"""Tidegate's core: the event, the hook specifications, the config, delivery and the runtime. Everything else is a
plugin (`plugins/<group>/gateway_<name>`), including what ships with it."""

from .contract import configs, in_process
from .contract.version import __version__

__all__ = ["__version__"]


def _reader() -> configs.Reader:
    from .config.reader import ConfigReader

    return ConfigReader()


def _offline() -> configs.Offline:
    from .runtime.offline import built_offline

    return built_offline


def _in_process() -> in_process.InProcess:
    from .runtime.run import run_process

    return run_process


configs.read_by(_reader)
configs.offline_by(_offline)
in_process.run_by(_in_process)
