"""The last planned run of each schedule that the gateway is done with, in a file of its own in the data directory."""

from __future__ import annotations

import json
from pathlib import Path

from gateway_core.contract.errors import StartError
from gateway_core.contract.files import private_folder
from gateway_core.contract.private_files import replace_file


def file_of(data_dir: Path, name: str) -> Path:
    """Where it is remembered."""
    return data_dir / "schedule" / f"{name}.json"


def read(path: Path) -> int | None:
    """The last planned time (Unix seconds), None before the first start. Raises `StartError`."""
    try:
        last = json.loads(path.read_bytes())["last"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise StartError(f"the last run of a schedule can't be read from {path}: {e}; remove the file") from e
    if type(last) is not int:
        raise StartError(f"the last run of a schedule in {path} is no time; remove the file")
    return last


def write(path: Path, last: int) -> None:
    """Durable when this returns. Raises `OSError`."""
    private_folder(path.parent)
    replace_file(path, json.dumps({"last": last}).encode())
