"""Keeps a server for all workers of a test run: `python server_keeper.py NAME FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from gateway_dev import servers

sys.path.insert(0, str(Path(__file__).parents[1]))  # it runs as a script, with -P

from tests.keeper import keep


def main(name: str, folder: Path) -> None:
    """Starts the server, and ends it when nobody uses it any more."""
    with servers.ALL[name](folder) as server:
        keep(folder, server.port)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
