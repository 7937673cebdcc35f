"""Traces in storage: the log, dead-letter files; and that nothing is there without tracing."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from gateway_log.reader import LogReader, to_event
from gateway_log.verify import faults
from gateway_testing import GatewayProcess, Subscriber

from tests.command_line import tidegate
from tests.traced import (
    CLIENT,
    OBSERVED,
    OTHER,
    Spans,
    binary,
    config,
    context_of,
    header_of,
    of_span,
    parent_of,
    post,
    traced,
    wait_until,
)


@pytest.mark.spec("CARD-02")
@pytest.mark.usefixtures("real_time")
def test_the_trace_goes_on_after_the_gateway_ended_and_came_back(tmp_path: Path) -> None:
    spans = Spans()
    with Subscriber(default=503) as s:
        trigger = f"all: {{subscriber: '{s.url}', delivery: {{backoff_delay_s: 30, backoff_max_s: 30}}}}"
        with traced(config(trigger), tmp_path, spans) as g:
            headers = {**binary(), "traceparent": header_of(CLIENT), "tracestate": "a=1"}
            assert post(g.ingress(), headers, b"x") == 202
            s.wait_for(1)
    with Subscriber() as s, traced(config(f"all: {{subscriber: '{s.url}'}}"), tmp_path, spans):
        (got,) = s.wait_for(1)
        wait_until(lambda: len(spans.named("deliver all")) == 2, lambda: "the second attempt")
    receive, attempts = spans.one("receive default"), spans.named("deliver all")
    assert [parent_of(a) for a in attempts] == [of_span(receive)] * 2
    assert context_of(got.headers) == of_span(attempts[1])
    assert got.headers["tracestate"] == "a=1"
    assert {n for n in got.headers if "trace" in n} == {"traceparent", "tracestate"}
    folder = tmp_path / "data/log/default"
    assert list(faults(folder)) == []
    with LogReader(folder) as log:
        (row,) = log.read(0, 1)
    event = to_event(0, row)
    assert event.trace == f"{header_of(of_span(receive))} a=1"
    assert event.attributes == {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


@pytest.mark.usefixtures("real_time")
def test_an_event_that_was_stored_with_its_trace_carries_it_also_when_nothing_is_traced_any_more(
    tmp_path: Path,
) -> None:
    spans = Spans()
    with Subscriber(default=503) as s:
        trigger = f"all: {{subscriber: '{s.url}', delivery: {{backoff_delay_s: 30, backoff_max_s: 30}}}}"
        with traced(config(trigger), tmp_path, spans) as g:
            assert post(g.ingress(), {**binary(), "traceparent": header_of(CLIENT)}) == 202
            s.wait_for(1)
    with Subscriber() as s:
        text = config(f"all: {{subscriber: '{s.url}'}}").removeprefix(OBSERVED)
        with traced(text, tmp_path, spans) as g:
            assert post(g.ingress(), {**binary("2"), "traceparent": header_of(CLIENT)}) == 202
            got = {r.headers["ce-id"]: r.headers for r in s.wait_for(2)}
    assert context_of(got["1"]) == of_span(spans.one("receive default"))
    assert "traceparent" not in got["2"]


@pytest.mark.spec("BR-25")
@pytest.mark.usefixtures("processes")
def test_without_tracing_nothing_is_added_anywhere(tmp_path: Path) -> None:
    """The request, the stored row and the status are those of a gateway that knows of no traces."""
    with (
        Subscriber() as s,
        GatewayProcess(config(f"all: {{subscriber: '{s.url}'}}").removeprefix(OBSERVED), tmp_path) as g,
    ):
        own = {"traceparent": header_of(OTHER), "tracestate": "a=1"}
        headers = {**binary(**own), "traceparent": header_of(CLIENT), "tracestate": "b=2"}
        assert post(g.ingress(), headers, b"x") == 202
        (got,) = s.wait_for(1)
        g.wait_until(g.drained)
        (file,) = (tmp_path / "data/log/default").glob("*.db")
        with closing(sqlite3.connect(file)) as log:
            rows = log.execute("SELECT sequence, flags, key, attributes, data FROM events").fetchall()
    assert set(got.headers) == {
        *(f"ce-{n}" for n in ("specversion", "id", "source", "type", "traceparent", "tracestate")),
        *("host", "user-agent", "prefer", "content-length"),
    }
    assert {n: got.headers[f"ce-{n}"] for n in own} == own
    attributes = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", **own}
    assert rows == [(1, 0, None, json.dumps(attributes, separators=(",", ":")), b"x")]


@pytest.mark.usefixtures("processes")
def test_a_dead_letter_file_keeps_the_trace_and_a_replay_continues_it(tmp_path: Path) -> None:
    spans = Spans()
    with Subscriber([400]) as s, traced(text := config(f"all: {{subscriber: '{s.url}'}}"), tmp_path, spans) as g:
        (tmp_path / "plain.yaml").write_text(text.removeprefix(OBSERVED))
        assert post(g.ingress(), {**binary(traceparent=header_of(OTHER)), "traceparent": header_of(CLIENT)}) == 202
        burial = spans.one("dead_letter all")
        command = ["dlq", "replay", "--config", str(tmp_path / "plain.yaml"), "--data-dir", str(tmp_path / "data")]
        command += ["--to", g.ingress(), "--all"]
        done = tidegate(*command)
        assert done.returncode == 0, done.stderr
        _, again = s.wait_for(2)
    assert parent_of(burial) == of_span(spans.named("receive default")[0])
    assert parent_of(spans.named("receive default")[1]) == of_span(burial)
    assert context_of(again.headers)[0] == CLIENT[0]
    assert again.headers["ce-traceparent"] == header_of(OTHER)
