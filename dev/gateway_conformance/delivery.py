"""Checks of delivery: what reaches a subscriber, and how its response is handled.

Sources: CloudEvents HTTP binding 1.0.2; Knative data plane contract ("Event Acknowledgement and Delivery Retry") and
Broker specification ("Delivery").
Each response goes to a different event, so that its effects can be told apart.
"""

from __future__ import annotations

import json
from itertools import pairwise
from statistics import median

from gateway_testing import vectors
from gateway_testing.arrival import Arrival
from gateway_testing.subscriber import Received
from gateway_testing.vectors import Vector

from .bench import Bench, Cases, Check, NotSupported, expect
from .ingress import V0_3, V1_0
from .sink import Script

TRACING = ("traceparent", "tracestate")
_OPTIONAL = {"subject", "time", "dataschema", "schemaurl"}
FAILURES = 5
RETRY_AFTER_S = 3
SPACED = 5
"""Events whose waits are measured: the median of each wait, as a busy machine may hold up any one of them."""
LEAST_WAIT_S = 0.1
"""A shorter wait is what the attempts themselves take."""


# -- deliveries ---------------------------------------------------------------------------------------------------


def at_least_once(bench: Bench) -> None:
    ids = [bench.deliver() for _ in range(50)]
    until = bench.until()
    with Cases() as cases:
        for id in ids:
            with cases.case():
                bench.arrivals(id, 1, f"event {id} of 50", until)


def by_post(bench: Bench) -> None:
    method = bench.arrivals(bench.deliver())[0].request.method
    expect(method == "POST", f"the event came by {method}")


def as_cloudevents(bench: Bench) -> None:
    arrival = bench.arrivals(bench.deliver())[0]
    with Cases() as cases:
        for name in ("specversion", "id", "source", "type"):
            cases.expect(name in arrival.attributes, f"the delivery lacks {name}")
        odd = [r for r in bench.sink.odd if not _redirected(r)]
        cases.expect(not odd, f"{len(odd)} requests carried no event, such as {odd[0].body[:60]!r}" if odd else "")


def identical_1_0(bench: Bench) -> None:
    _identical(bench, V1_0)


def identical_0_3(bench: Bench) -> None:
    answer = bench.post({"ce-specversion": "0.3", "ce-id": bench.id(), "ce-source": "/s", "ce-type": "t"})
    if not answer.is_success:
        raise NotSupported("0.3 is not taken")
    _identical(bench, V0_3)


def _identical(bench: Bench, examples: list[Vector]) -> None:
    with Cases() as cases:
        sent = []
        for vector in examples:
            for mode in ("binary", "structured"):
                with cases.case():
                    sent.append((vector, mode, bench.vector(vector, mode)))
        until = bench.until()
        for vector, mode, event in sent:
            what = f"{vector.name} ({mode})"
            with cases.case():
                _compare(bench.arrivals(str(event.event.attributes["id"]), 1, what, until)[0], event, what, mode)


def _compare(arrival: Arrival, sent: Vector, what: str, mode: str) -> None:
    with Cases() as cases:
        for name, value in vectors.texts(sent.event).items():
            if name not in TRACING:
                found = arrival.attributes.get(name)
                cases.expect(found == value, f"{what}: {name} {value!r} came as {found!r}")
        more = _OPTIONAL & set(arrival.attributes) - set(vectors.texts(sent.event))  # extensions may be added
        cases.expect(not more, f"{what}: came with {', '.join(sorted(more))}, which it did not have")
        exact = mode == arrival.mode == "binary"
        same = vectors.same_data(arrival.data, sent.event.data, exact=exact)
        cases.expect(same, f"{what}: data {sent.event.data!r} came as {arrival.data[:80]!r}")


def version_kept(bench: Bench) -> None:
    with Cases() as cases:
        for vector in (V1_0[0], V0_3[0]):
            for mode in ("binary", "structured"):
                with cases.case():
                    sent = bench.vector(vector, mode)
                    arrival = bench.arrivals(str(sent.event.attributes["id"]))[0]
                    found = arrival.attributes.get("specversion")
                    expect(found == vector.version, f"an event of {vector.version} ({mode}) came as {found}")


def trace_kept(bench: Bench) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    arrival = bench.arrivals(bench.deliver(traceparent=f"00-{trace}-b7ad6b7169203331-01"))[0]
    found = arrival.attributes.get("traceparent", "")
    expect(trace in found, f"traceparent came as {found!r}: another trace")


def large_arrives(bench: Bench) -> None:
    id, body = bench.id(), bytes(range(256)) * 250
    bench.accepted(bench.headers(id) | {"content-type": "application/octet-stream"}, body)
    data = bench.arrivals(id)[0].data
    expect(data == body, f"64,000 bytes came as {len(data)}")


def options_queues_nothing(bench: Bench) -> None:
    id = bench.id()
    bench.ask("OPTIONS", bench.headers(id))
    bench.arrivals(bench.deliver())
    bench.settle()
    expect(not bench.sink.got(id), "the event in an OPTIONS request was delivered")


# -- encoding ---------------------------------------------------------------------------------------


def header_values_read(bench: Bench) -> None:
    values = {
        "caf%C3%A9%20%22x%22": 'café "x"',  # percent-encoded
        '"two words"': "two words",  # quoted
        r'"a \"b\" \\c"': r'a "b" \c',  # quoted, with escapes
        "%22quoted%22": '"quoted"',  # quotes that belong to the value
    }
    sent = {bench.deliver(note=written): (written, meant) for written, meant in values.items()}
    until = bench.until()
    with Cases() as cases:
        for id, (written, meant) in sent.items():
            with cases.case():
                found = bench.arrivals(id, until=until)[0].attributes.get("note")
                expect(found == meant, f"the header value {written} means {meant!r} and came as {found!r}")


def header_values_written(bench: Bench) -> None:
    meant = 'Grüße, "100%" 世界'
    body = {"specversion": "1.0", "id": bench.id(), "source": bench.source, "type": "t", "note": meant}
    bench.accepted({"content-type": vectors.STRUCTURED_TYPE}, json.dumps(body).encode())
    arrival = bench.arrivals(str(body["id"]))[0]
    if arrival.mode == "structured":
        raise NotSupported("events are delivered in structured mode")
    raw = arrival.request.headers.get("ce-note", "")
    with Cases() as cases:
        forbidden = sorted({c for c in raw if not "!" <= c <= "~" or c == '"'})
        cases.expect(not forbidden, f"{meant!r} was written as {raw!r}: {forbidden} must be percent-encoded")
        cases.expect(
            arrival.attributes.get("note") == meant, f"{meant!r} was written as {raw!r}, which is something else"
        )


def one_content_type(bench: Bench) -> None:
    kind = "application/vnd.Tidegate.Test+XML; Charset=UTF-8"
    id, structured = bench.id(), bench.id()
    bench.accepted(bench.headers(id) | {"content-type": kind}, b"<a/>")
    body = {"specversion": "1.0", "id": structured, "source": bench.source, "type": "t", "datacontenttype": kind}
    bench.accepted({"content-type": vectors.STRUCTURED_TYPE}, json.dumps({**body, "data": "<a/>"}).encode())
    with Cases() as cases:
        for mode, which in (("binary", id), ("structured", structured)):
            with cases.case():
                arrival = bench.arrivals(which)[0]
                found = arrival.attributes.get("datacontenttype")
                expect(found == kind, f"content type {kind!r} ({mode}) came as {found!r}")
                beside = arrival.request.headers.get("ce-datacontenttype")
                expect(beside is None, f"ce-datacontenttype: {beside} was sent beside Content-Type ({mode})")


def chunked(bench: Bench) -> None:
    pieces = [bytes([n]) * 700 for n in range(20)]
    binary, structured = bench.id(), bench.id()
    bench.accepted(bench.headers(binary) | {"content-type": "application/octet-stream"}, lambda: iter(pieces))
    body = {"specversion": "1.0", "id": structured, "source": bench.source, "type": "t", "data": "x" * 5000}
    text = json.dumps(body).encode()
    bench.accepted(
        {"content-type": vectors.STRUCTURED_TYPE}, lambda: (text[i : i + 999] for i in range(0, len(text), 999))
    )
    with Cases() as cases:
        for mode, id, wanted in (
            ("binary", binary, b"".join(pieces)),
            ("structured", structured, b'"%b"' % (b"x" * 5000)),
        ):
            with cases.case():
                data = bench.arrivals(id, 1, f"an event in chunks ({mode})")[0].data
                same = vectors.same_data(data, wanted)
                expect(same, f"{len(wanted)} bytes of data sent in chunks ({mode}) came as {data[:60]!r}")


# -- responses ---------------------------------------------------------------------------------------------


def _once(bench: Bench, answers: dict[str, Script]) -> None:
    """Each of these responses ends the delivery of its event."""
    ids = {name: bench.deliver(answer) for name, answer in answers.items()}
    until = bench.until()
    with Cases() as cases:
        for name, id in ids.items():
            with cases.case():
                bench.arrivals(id, 1, f"the event to be answered {name}", until)
        bench.settle()
        for name, id in ids.items():
            count = len(bench.sink.got(id))
            cases.expect(count <= 1, f"after {name} the event was delivered {count} times")


def _again(bench: Bench, answers: dict[str, Script]) -> None:
    """After each of these responses, given twice, the event is delivered again. Twice, because a client may repeat a
    request once by itself if a kept-alive connection was closed."""
    ids = {name: bench.deliver(answer, answer) for name, answer in answers.items()}
    until = bench.until()
    with Cases() as cases:
        for name, id in ids.items():
            with cases.case():
                bench.arrivals(id, 3, f"the event that was answered {name} twice", until)


def _codes(*codes: int) -> dict[str, Script]:
    return {str(code): code for code in codes}


def success(bench: Bench) -> None:
    _once(bench, _codes(200, 201, 202, 203, 204, 206, 299))


def redirects(bench: Bench) -> None:
    to = {"location": bench.sink.url + "redirected"}
    answers: dict[str, Script] = {str(code): (code, to, b"") for code in (301, 302, 303, 307, 308)}
    with Cases() as cases:
        with cases.case():
            _once(bench, {**answers, "300": 300, "304": 304})
        cases.expect(not any(map(_redirected, bench.sink.odd)), "a redirect was followed")


def _redirected(request: Received) -> bool:
    return request.path == "/redirected"


def switching_protocols(bench: Bench) -> None:
    _once(bench, {"101": 101})


def unparsable(bench: Bench) -> None:
    _once(bench, _codes(400))


def other_4xx(bench: Bench) -> None:
    _once(bench, _codes(401, 402, 403, 405, 406, 410, 411, 412, 413, 414, 415, 417, 422, 431, 451, 499))


def retried_4xx(bench: Bench) -> None:
    _again(bench, _codes(404, 408, 409, 429))


def server_errors(bench: Bench) -> None:
    _again(bench, _codes(500, 501, 502, 503, 504, 507, 599))


def unknown_codes(bench: Bench) -> None:
    _again(bench, _codes(600, 799))


def no_answer(bench: Bench) -> None:
    _again(bench, {"with a closed connection": None})


def malformed_answer(bench: Bench) -> None:
    _again(bench, {"with what is not HTTP": 99_999})


def retries(bench: Bench) -> None:
    bench.arrivals(bench.deliver(503, 500, 404), 4, "an event that failed three times")


def spacing_grows(bench: Bench) -> None:
    ids = [bench.deliver(*[503] * FAILURES) for _ in range(SPACED)]
    until = bench.until()
    spaces = []
    for id in ids:
        arrivals = bench.arrivals(id, FAILURES + 1, f"an event that failed {FAILURES} times", until)
        spaces.append([b.time - a.time for a, b in pairwise(arrivals[: FAILURES + 1])])
    waits = [median(of_one) for of_one in zip(*spaces, strict=True)]
    seen = f"the waits before the retries were {', '.join(f'{w:.2f}' for w in waits)} s"
    expect(waits[-1] >= LEAST_WAIT_S, f"{seen}: the last one is shorter than {LEAST_WAIT_S:g} s")
    expect(waits[-1] > 1.5 * waits[0], seen)


def retry_after(bench: Bench) -> None:
    id = bench.deliver((429, {"retry-after": str(RETRY_AFTER_S)}, b""))
    first, second = bench.arrivals(id, 2)[:2]
    waited = second.time - first.time
    expect(waited >= RETRY_AFTER_S - 0.1, f"after Retry-After: {RETRY_AFTER_S} it waited {waited:.2f} s")


DELIVERY = [
    Check("BR-17", "S", "delivers every event at least once", at_least_once, sink=True),
    Check("DP-04", "M", "delivers by POST", by_post, sink=True),
    Check("DP-03", "M", "delivers valid CloudEvents, binary or structured", as_cloudevents, sink=True),
    Check("HB-01", "M", "decodes and unquotes header values", header_values_read, sink=True),
    Check("HB-02", "M", "percent-encodes header values", header_values_written, sink=True),
    Check("HB-03", "M", "writes one content type, as it came", one_content_type, sink=True),
    Check("HB-04", "M", "reads bodies in chunks whole", chunked, sink=True),
    Check("BR-16", "S", "keeps attributes and data of 1.0 events", identical_1_0, sink=True),
    Check("BR-16", "S", "keeps attributes and data of 0.3 events", identical_0_3, sink=True),
    Check("BR-16", "S", "keeps 64 KB of data", large_arrives, sink=True),
    Check("BR-11", "S", "does not upgrade the version", version_kept, sink=True),
    Check("BR-25", "S", "keeps the trace", trace_kept, sink=True),
    Check("DP-05", "M", "queues nothing on OPTIONS", options_queues_nothing, sink=True),
    Check("DP-08", "M", "takes every 2xx as delivered: no retry", success, sink=True),
    Check("DP-09", "M", "does not retry after 3xx, and follows no redirect", redirects, sink=True),
    Check("DP-09", "M", "does not retry after a final 1xx", switching_protocols, sink=True),
    Check("DP-10", "M", "does not retry after 400", unparsable, sink=True),
    Check("DP-11", "S", "retries after 404, 408, 409 and 429", retried_4xx, sink=True),
    Check("DP-12", "M", "does not retry after other 4xx", other_4xx, sink=True),
    Check("DP-13", "S", "retries after 5xx", server_errors, sink=True),
    Check("DP-14", "S", "retries after codes outside the table", unknown_codes, sink=True),
    Check("DP-14", "S", "retries after no answer", no_answer, sink=True),
    Check("DP-14", "S", "retries after an answer that is not HTTP", malformed_answer, sink=True),
    Check("DP-18", "M", "retries more than once", retries, sink=True),
    Check("DP-17", "M", "waits longer before later retries", spacing_grows, sink=True, alone=True),
    Check("DP-17", "m", "keeps to Retry-After", retry_after, sink=True, alone=True),
]
