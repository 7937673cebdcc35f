"""Where Spark begins to read a topic whose offsets the cluster has not told yet."""

from __future__ import annotations

from typing import Any

import pytest
from gateway_spark.config import SparkSinkConfig
from gateway_spark.source_options import options_of

from gateway_core.contract.start_position import EARLIEST, LATEST, StartPosition

pytestmark = pytest.mark.spec("TR-11")
MINUTE_NS = 60_000_000_000


class Feed:
    name = "table"
    location = "kafka://127.0.0.1:9092/events"

    def __init__(self, start: StartPosition, known: dict[str, int]) -> None:
        self.options = {"kind": "kafka", "topic": "events", "properties": {}, "start": start.json()}
        self.start = known

    def advance(self, offsets: Any) -> None: ...

    def ends(self) -> dict[str, int]:
        return {}


@pytest.mark.parametrize(
    ("start", "wanted"),
    [
        (EARLIEST, {"startingOffsets": "earliest"}),
        (LATEST, {"startingOffsets": "latest"}),
        (
            StartPosition.at_time(MINUTE_NS + 1),
            {"startingTimestamp": "60000", "startingOffsetsByTimestampStrategy": "latest"},
        ),
        (StartPosition.at_positions({1: 5, 0: 1}), {"startingOffsets": '{"events":{"0":0,"1":4}}'}),
    ],
)
def test_it_begins_where_the_trigger_begins(start: StartPosition, wanted: dict[str, str]) -> None:
    config = SparkSinkConfig.model_validate({"path": "/tables/t"})
    unknown = options_of(Feed(start, {}), config)
    assert {name: value for name, value in unknown.items() if name.startswith("starting")} == wanted
    known = options_of(Feed(start, {"0": 7}), config)
    assert {name: value for name, value in known.items() if name.startswith("starting")} == {
        "startingOffsets": '{"events":{"0":7}}'
    }
