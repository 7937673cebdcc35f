"""What a trigger lacks because its channel had deleted it when the trigger began (`capabilities.StartsLate`): a small
file for each in the data directory, so that the condition stays over restarts. Everything here blocks."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from .private_files import durable_folder, replace_file

log = logging.getLogger("tidegate")


def remember(data_dir: Path, name: str, text: str | None) -> None:
    """Keeps what the subscription of this name lacks; None: nothing. The name is one for all channels of a gateway. If
    that can't be written, the log says so."""
    path = _file(data_dir, name)
    try:
        if text is None:
            path.unlink(missing_ok=True)
        else:
            durable_folder(path.parent)
            replace_file(path, json.dumps({"name": name, "text": text}).encode())
    except OSError as e:
        log.warning("that %s began late will not be known after a restart: %s", name, e.strerror or e)


def known(data_dir: Path, name: str) -> str | None:
    """What the subscription of this name lacks, as was remembered."""
    with suppress(FileNotFoundError):
        try:
            return str(json.loads(_file(data_dir, name).read_bytes())["text"])
        except (ValueError, KeyError, TypeError) as e:
            log.warning("whether %s began late can't be read: %s", name, e)
        except OSError as e:
            if not isinstance(e, FileNotFoundError):
                log.warning("whether %s began late can't be read: %s", name, e.strerror or e)
    return None


def _file(data_dir: Path, name: str) -> Path:
    return data_dir / "started-late" / f"{sha256(name.encode()).hexdigest()[:32]}.json"
