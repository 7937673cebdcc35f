"""Checks of replies: events in the responses of subscribers.

Sources: Knative data plane contract ("Derived (Reply) Events"), Broker specification ("Delivery", "Observability").
"""

from __future__ import annotations

import json

from .bench import Bench, Cases, Check, NotSupported, expect
from .sink import Script


def prefers_reply(bench: Bench) -> None:
    found = bench.arrivals(bench.deliver())[0].request.headers.get("prefer", "")
    expect("reply" in [word.strip() for word in found.split(",")], f"Prefer is {found!r}")


def _binary(bench: Bench, id: str, status: int = 200, **more: str) -> Script:
    headers = bench.headers(id, type="dev.tidegate.conformance.reply", **more)
    return status, {**headers, "content-type": "text/plain"}, b"the reply"


def _structured(bench: Bench, id: str, status: int = 200) -> tuple[int, dict[str, str], bytes]:
    event = {"specversion": "1.0", "id": id, "source": bench.source, "type": "reply", "data": {"n": 1}}
    return status, {"content-type": "application/cloudevents+json"}, json.dumps(event).encode()


def binary_reply(bench: Bench) -> None:
    reply = bench.id()
    bench.deliver(_binary(bench, reply))
    bench.arrivals(reply, 1, "the reply")


def structured_reply(bench: Bench) -> None:
    reply = bench.id()
    bench.deliver(_structured(bench, reply))
    bench.arrivals(reply, 1, "the reply")


def reply_as_produced(bench: Bench) -> None:
    reply = bench.id()
    bench.deliver(_binary(bench, reply, subject="a%20b", myextension="x"))
    arrival = bench.arrivals(reply, 1, "the reply")[0]
    wanted = {"specversion": "1.0", "id": reply, "source": bench.source, "subject": "a b", "myextension": "x"}
    wanted |= {"type": "dev.tidegate.conformance.reply", "datacontenttype": "text/plain"}
    with Cases() as cases:
        for name, value in wanted.items():
            found = arrival.attributes.get(name)
            cases.expect(found == value, f"{name} {value!r} came as {found!r}")
        cases.expect(arrival.data == b"the reply", f"its data came as {arrival.data[:80]!r}")
        prefer = arrival.request.headers.get("prefer", "")
        cases.expect("reply" in prefer, "the delivery of a reply does not say Prefer: reply")


def reply_keeps_version(bench: Bench) -> None:
    if not bench.post({"ce-specversion": "0.3", "ce-id": bench.id(), "ce-source": "/s", "ce-type": "t"}).is_success:
        raise NotSupported("0.3 is not taken")
    binary, structured = bench.id(), bench.id()
    bench.deliver(_binary(bench, binary, specversion="0.3"))
    status, headers, body = _structured(bench, structured)
    bench.deliver((status, headers, body.replace(b'"1.0"', b'"0.3"', 1)))
    until = bench.until()
    with Cases() as cases:
        for mode, reply in (("binary", binary), ("structured", structured)):
            with cases.case():
                found = bench.arrivals(reply, 1, f"the reply of 0.3 ({mode})", until)[0].attributes.get("specversion")
                expect(found == "0.3", f"a reply of 0.3 ({mode}) came as {found}")


def reply_keeps_trace(bench: Bench) -> None:
    trace, reply = "4bf92f3577b34da6a3ce929d0e0e4736", bench.id()
    bench.deliver(_binary(bench, reply), traceparent=f"00-{trace}-00f067aa0ba902b7-01")
    found = bench.arrivals(reply, 1, "the reply")[0].attributes.get("traceparent", "")
    expect(trace in found, f"the reply's traceparent is {found!r}: not of the event's trace")


def replied_once(bench: Bench) -> None:
    id = bench.deliver(_binary(bench, bench.id()))
    bench.arrivals(id)
    bench.settle()
    count = len(bench.sink.got(id))
    expect(count == 1, f"the event that was answered with a reply was delivered {count} times")


def accepted_is_no_reply(bench: Bench) -> None:
    replies = [bench.id() for _ in range(4)]
    answers = [_binary(bench, replies[0], 202), _structured(bench, replies[1], 202)]
    answers += [_binary(bench, replies[2], 201), _structured(bench, replies[3], 400)]
    events = [bench.deliver(answer) for answer in answers]
    with Cases() as cases:
        until = bench.until()
        for id in events:
            with cases.case():
                bench.arrivals(id, until=until)
        bench.settle()
        for code, reply in zip((202, 202, 201, 400), replies, strict=True):
            cases.expect(not bench.sink.got(reply), f"the event in a {code} was routed")


def no_event_is_no_reply(bench: Bench) -> None:
    page: Script = (200, {"content-type": "text/html"}, b"<p>Thank you!</p>")
    document: Script = (200, {"content-type": "application/json"}, b'{"ok": true}')
    ids = {"an empty 200": bench.deliver(200), "HTML": bench.deliver(page), "JSON": bench.deliver(document)}
    until = bench.until()
    with Cases() as cases:
        for name, id in ids.items():
            with cases.case():
                bench.arrivals(id, 1, name, until)
        bench.settle()
        for name, id in ids.items():
            count = len(bench.sink.got(id))
            cases.expect(count <= 1, f"the event that was answered with {name} was delivered {count} times")


def malformed_reply(bench: Bench) -> None:
    broken: dict[str, Script] = {
        "not JSON": (200, {"content-type": "application/cloudevents+json"}, b"{garbage"),
        "without id": (200, {"ce-specversion": "1.0", "ce-source": "/s", "ce-type": "t"}, b""),
    }
    ids = {name: bench.deliver(answer) for name, answer in broken.items()}
    until = bench.until()
    with Cases() as cases:
        for name, id in ids.items():
            with cases.case():
                bench.arrivals(id, 2, f"the event that was answered with a reply that is {name}", until)


REPLIES = [
    Check("DP-21", "M", "says Prefer: reply", prefers_reply, sink=True),
    Check("DP-22", "M", "routes an event in a 200, binary mode", binary_reply, sink=True),
    Check("DP-22", "M", "routes an event in a 200, structured mode", structured_reply, sink=True),
    Check("DP-22", "M", "takes a 200 with a reply as delivered: no retry", replied_once, sink=True),
    Check("DP-23", "M", "routes no event in a 202, nor in other answers than 200", accepted_is_no_reply, sink=True),
    Check("DP-25", "m", "takes a 200 without event as delivered, without reply", no_event_is_no_reply, sink=True),
    Check("BR-22", "S", "publishes a reply as if it had been produced", reply_as_produced, sink=True),
    Check("BR-11", "S", "does not upgrade the version of a reply", reply_keeps_version, sink=True),
    Check("BR-23", "S", "delivers again after a reply that is no valid event", malformed_reply, sink=True),
    Check("BR-25", "S", "keeps the trace on a reply that has none", reply_keeps_trace, sink=True),
]
