"""One Kafka broker for all workers of a test run; see `tests.keeper`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gateway_java.kafka import KafkaBroker

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))  # it runs as a script, with -P

from tests.keeper import keep, kept

PROPERTIES: Mapping[str, str] = {"num.partitions": "4"}  # of topics that come into being when they are first used


@contextmanager
def shared_broker(folder: Path) -> Iterator[KafkaBroker]:
    """The broker of the run whose folder this is."""
    with kept(folder, [sys.executable, "-P", __file__]) as port:
        yield KafkaBroker(folder / "broker", port=port)


def _keep(folder: Path) -> None:
    broker = KafkaBroker(folder / "broker", properties=PROPERTIES)
    broker.start()
    try:
        keep(folder, int(broker.bootstrap.rpartition(":")[2]))
    finally:
        broker.kill()


if __name__ == "__main__":
    _keep(Path(sys.argv[1]))
