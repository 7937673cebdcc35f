"""Files that must be there, and right, before a component can start: keys, certificates, tokens. `tidegate check` looks
at them; a gateway reads them again when it starts, and when they change."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from gateway_core.config.model import GatewayConfig
from gateway_core.contract.config_extension import ConfigFinding

from .regular_file import read_regular
from .set_options import set_options


class FileFault(NamedTuple):
    """What is wrong with the file that an option names."""

    option: str
    message: str
    remedy: str = ""


@runtime_checkable
class NeedsFiles(Protocol):
    """Options that know what must be in the files which they name."""

    def file_faults(self) -> Iterator[FileFault]:
        """What is wrong with them now."""


def unreadable(file: Path) -> str | None:
    """Why a file can't be read; None if it can."""
    try:
        read_regular(file, 0)
    except (OSError, ValueError) as e:
        return f"{file}: can't be read: {getattr(e, 'strerror', None) or e}"
    return None


def certificate_faults(cert_file: Path | None, key_file: Path | None, authorities: Path | None) -> Iterator[FileFault]:
    """What is wrong with the files of one side of TLS, by the words `cert_file`, `key_file` and `ca_file`."""
    given = (("cert_file", cert_file), ("key_file", key_file), ("ca_file", authorities))
    missing = [FileFault(name, text) for name, file in given if file is not None and (text := unreadable(file))]
    if missing:
        yield from missing
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if cert_file is not None:
        try:  # without the function OpenSSL would ask for a password at the terminal
            context.load_cert_chain(cert_file, key_file, lambda: "")
        except OSError as e:
            yield FileFault("cert_file", f"{cert_file}: can't be used with its key: {e}")
    if authorities is not None:
        try:
            context.load_verify_locations(authorities)
        except OSError as e:
            yield FileFault("ca_file", f"{authorities}: holds no certificates that can be used: {e}")


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
