"""Files that must be there, and right, before a component can start: keys, certificates, tokens. `tidegate check` looks
at them; a gateway reads them again when it starts, and when they change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from .config_extension import ConfigFinding
from .config_model import GatewayConfig
from .config_walk import set_options
from .files import read_regular


class FileFault(NamedTuple):
    """What is wrong with the file that an option names."""

    option: str
    message: str
    remedy: str = ""


@runtime_checkable
class NeedsFiles(Protocol):
    """Options that know what must be in the files which they name."""

    def file_faults(self) -> Iterator[FileFault]:
        """The present faults of these files."""


def unreadable(file: Path) -> str | None:
    """Why a file can't be read; None if it can."""
    try:
        read_regular(file, 0)
    except (OSError, ValueError) as e:
        return f"{file}: can't be read: {getattr(e, 'strerror', None) or e}"
    return None


def faulty_files(config: GatewayConfig) -> Iterator[ConfigFinding]:
    """What is wrong with the files that a config needs, in the order of the options that name them."""
    looked: set[int] = set()
    for place, model, name, value, _ in set_options(config):
        if isinstance(model, NeedsFiles):
            if id(model) not in looked:
                looked.add(id(model))
                for fault in model.file_faults():
                    yield ConfigFinding(fault.message, (*place[:-1], fault.option), fault.remedy)
        elif name.endswith("_file") and isinstance(value, Path) and (text := unreadable(value)):
            yield ConfigFinding(text, place)
