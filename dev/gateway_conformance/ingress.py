"""Checks of an ingress: what it accepts, what it refuses, and its responses.

Sources: Knative data plane contract and Broker specification; CloudEvents 1.0.2 and its HTTP binding; RFC 9110.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway_testing import vectors
from gateway_testing.vectors import Refusal, Vector

from .bench import Bench, Cases, Check, NotSupported, expect

V1_0 = [v for v in vectors.VECTORS if v.version == "1.0"]
V0_3 = [v for v in vectors.VECTORS if v.version == "0.3"]
EXAMPLES = [v for v in V1_0 if v.name in ("required-only", "json-object", "text", "bytes", "all-attributes")]


def binary_1_0(bench: Bench) -> None:
    _taken(bench, EXAMPLES, "binary")


def structured_1_0(bench: Bench) -> None:
    _taken(bench, EXAMPLES, "structured")


def either_0_3(bench: Bench) -> None:
    _taken(bench, V0_3, "binary", "structured")


def _taken(bench: Bench, examples: list[Vector], *modes: str) -> None:
    with Cases() as cases:
        for vector in examples:
            for mode in modes:
                with cases.case():
                    bench.vector(vector, mode)


def content_types(bench: Bench) -> None:
    kinds = ("application/vnd.apache.thrift.binary", "application/xml", "text/json", "application/x-unheard-of")
    with Cases() as cases:
        for kind in kinds:
            with cases.case():
                headers = bench.headers(bench.id()) | {"content-type": kind}
                bench.accepted(headers, b"\x80\x01\x00", f"data of type {kind}")


def media_type_in_any_case(bench: Bench) -> None:
    body = vectors.VECTORS[0].with_id(bench.id()).document.encode()
    with Cases() as cases:
        for kind in ("APPLICATION/CloudEvents+JSON", "application/cloudevents+json;charset=UTF-8"):
            with cases.case():
                bench.accepted({"content-type": kind}, body, f"an event of type {kind}")


def batch(bench: Bench) -> None:
    message = vectors.batch([v.with_id(bench.id()) for v in EXAMPLES])
    answer = bench.post({"content-type": vectors.BATCH_TYPE}, message.body or b"")
    if answer.status_code == 415:
        raise NotSupported("batches are refused with 415")
    expect(answer.is_success, f"a batch was answered {answer.status_code}")


def large(bench: Bench) -> None:
    bench.accepted(bench.headers(bench.id()) | {"content-type": "text/plain"}, b"x" * 64_000, "an event of 64 KB")


def options_names_post(bench: Bench) -> None:
    answer = bench.ask("OPTIONS", {})
    if answer.status_code in (404, 405, 501):
        raise NotSupported(f"OPTIONS is answered {answer.status_code}")
    allow = answer.headers.get("allow", "")
    expect(answer.is_success, f"OPTIONS was answered {answer.status_code}")
    expect("POST" in [m.strip() for m in allow.split(",")], f"Allow is {allow!r}")


def other_methods(bench: Bench) -> None:
    with Cases() as cases:
        for method in ("GET", "PUT", "PATCH", "DELETE"):
            with cases.case():
                status = bench.ask(method, bench.headers(bench.id())).status_code
                expect(status == 405, f"{method} was answered {status}, not 405")


def allow_on_405(bench: Bench) -> None:
    answer = bench.ask("PUT", bench.headers(bench.id()))
    expect(
        "POST" in answer.headers.get("allow", ""),
        f"{answer.status_code} came with Allow {answer.headers.get('allow')!r}",
    )


def success_is_2xx(bench: Bench) -> None:
    answer = bench.post(bench.headers(bench.id()))
    expect(answer.is_success, f"an event was answered {answer.status_code}")
    expect(not answer.headers.get("ce-id"), "the answer claims to be an event")


def required_attributes(bench: Bench) -> None:
    _refused(bench, [c for c in vectors.REQUIRED if c.name.startswith("1.0") and c.name.endswith("missing")])


def empty_attributes(bench: Bench) -> None:
    _refused(bench, [c for c in vectors.REQUIRED if c.name.startswith("1.0") and c.name.endswith("empty")])


def required_attributes_0_3(bench: Bench) -> None:
    if not bench.post({"ce-specversion": "0.3", "ce-id": bench.id(), "ce-source": "/s", "ce-type": "t"}).is_success:
        raise NotSupported("0.3 is not taken")
    _refused(bench, [c for c in vectors.REQUIRED if c.name.startswith("0.3")])


def unreadable(bench: Bench) -> None:
    _refused(bench, vectors.UNREADABLE)


def _refused(bench: Bench, messages: Sequence[Refusal], what: str = "") -> None:
    with Cases() as cases:
        for message in messages:
            with cases.case():
                bench.refused(message.headers, message.body, f"{what}{message.name}")


def problem_names_the_fault(bench: Bench) -> None:
    with Cases() as cases:
        for case in vectors.REQUIRED[:16]:
            with cases.case():
                answer = bench.refused(case.headers, case.body, case.name)
                named = case.attribute in answer.text
                expect(named, f"{case.name}: the answer does not name it: {answer.text[:80]!r}")


def unknown_version(bench: Bench) -> None:
    _refused(bench, vectors.UNKNOWN_VERSIONS, "specversion ")


def duplicates(bench: Bench) -> None:
    headers = bench.headers(bench.id())
    with Cases() as cases:
        for nth in ("first", "second", "third"):
            with cases.case():
                bench.accepted(headers, b"", f"the {nth} of three equal events")


def upgrade(bench: Bench) -> None:
    with Cases() as cases:
        for word in ("websocket", "h2c", "tidegate/1"):
            more = {"connection": "Upgrade", "upgrade": word}
            with cases.case():
                bench.accepted(bench.headers(bench.id()) | more, b"data", f"an event with Upgrade: {word}")


def unknown_path(bench: Bench) -> None:
    url = bench.url.split("?")[0].rstrip("/") + "/there/is/no/such/path"
    status = bench.ask("POST", bench.headers(bench.id()), url=url).status_code
    if 200 <= status < 300:
        raise NotSupported("every path below is taken")
    expect(status == 404, f"an unknown path was answered {status}")


def unknown_format(bench: Bench) -> None:
    status = bench.post({"content-type": "application/cloudevents+unheard-of"}, b"?").status_code
    expect(status in (400, 415), f"an unknown event format was answered {status}")


def goes_on_after_nonsense(bench: Bench) -> None:
    with Cases() as cases:
        for case in vectors.UNREADABLE:
            with cases.case():
                status = bench.post(case.headers, case.body).status_code
                expect(status < 500, f"{case.name} was answered {status}")
    bench.accepted(bench.headers(bench.id()), b"", "an event after nonsense")


INGRESS = [
    Check("DP-01", "M", "takes CloudEvents 1.0 in binary mode", binary_1_0),
    Check("DP-01", "M", "takes data of any content type in binary mode", content_types),
    Check("DP-02", "M", "takes CloudEvents 1.0 in structured mode", structured_1_0),
    Check("DP-02", "M", "reads the event format's media type in any case, with charset", media_type_in_any_case),
    Check("DP-02", "m", "takes a batch", batch),
    Check("BR-10", "m", "takes CloudEvents 0.3 in both modes", either_0_3),
    Check("BR-12", "m", "answers 400 to versions that do not exist", unknown_version),
    Check("BR-13", "M", "answers 405 to methods other than POST", other_methods),
    Check("BR-13", "S", "names POST in Allow with the 405", allow_on_405),
    Check("BR-14", "M", "answers 2xx to what it accepts, with no event in the answer", success_is_2xx),
    Check("BR-14", "M", "accepts an event of 64 KB", large),
    Check("BR-15", "M", "answers 400 where a required attribute is missing, each in both modes", required_attributes),
    Check("BR-15", "M", "answers 400 where a required attribute is empty, each in both modes", empty_attributes),
    Check("BR-15", "m", "does so for 0.3", required_attributes_0_3),
    Check("BR-15", "M", "answers 400 to what is no event", unreadable),
    Check("BR-15", "m", "names the attribute at fault in the answer", problem_names_the_fault),
    Check("DP-05", "M", "names POST in Allow where it answers OPTIONS", options_names_post),
    Check("DP-15", "M", "accepts duplicates", duplicates),
    Check("DP-26", "S", "ignores Upgrade", upgrade),
    Check("DP-27", "m", "answers 404 to an unknown path", unknown_path),
    Check("DP-27", "m", "answers 415 or 400 to an unknown event format", unknown_format),
    Check("DP-27", "S", "never answers nonsense with 5xx, and keeps serving", goes_on_after_nonsense),
]
