"""Files of certificates and keys that an option names, for `tidegate check`."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

from gateway_core.contract.needed_files import FileFault, unreadable


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
