"""What a data directory remembers of the durable names that configs used: `names.json`."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

from .durable import DurableName, Noted
from .one_line import one_line

log = logging.getLogger("tidegate")

FILE = "names.json"
KEPT = ("transport", "what", "where", "name", "owner", "facts", "keeps")
"""The fields of a `DurableName` that the file has."""

_TWICE = re.compile("^[a-z]+://(?=[a-z]+://)")
"""A scheme before another one, as earlier versions noted the servers of Redis and RabbitMQ."""


def noted_names(data_dir: Path) -> list[Noted]:
    """What the file remembers; nothing if there is none. One that can't be read is logged, and read as far as it can
    be."""
    path, found = data_dir / FILE, list[Noted]()
    try:
        for entry in json.loads(path.read_text(encoding="utf-8"))["names"]:
            known = {key: entry[key] for key in KEPT}
            known["where"] = _TWICE.sub("", known["where"])
            found.append(Noted(DurableName(**known), used=bool(entry["used"])))
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, TypeError) as e:
        log.warning("the names that earlier configs used can't be read in %s: %s", path, one_line(e))
    return found
