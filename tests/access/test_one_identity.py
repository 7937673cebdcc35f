"""What is checked is what a subscriber reads: no spelling of a name, in no version of CloudEvents, shows another
sender or another type than those that policies, filters and marks have seen."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from gateway_access.gate import mark
from gateway_basics.config import AttributeKeyConfig
from gateway_basics.filters import not_of
from gateway_basics.keys import build_attribute
from gateway_cloudevents.bindings import HTTP, KAFKA
from gateway_cloudevents.codec import build
from gateway_cloudevents.config import CloudEventsConfig
from gateway_cloudevents.values import forbidden_character
from gateway_log.routing import Router
from gateway_mqtt.binding import MQTT
from gateway_nats.binding import NATS
from gateway_rabbitmq.binding import AMQP
from hypothesis import example, given
from hypothesis import strategies as st

from gateway_core.config.registry import Registry
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import Binding, BuildContext
from gateway_core.contract.dead_letter_facts import with_facts
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.filter_guard import FilterGuard
from gateway_core.contract.filters import attributes_filter
from gateway_core.contract.identity import ANONYMOUS, Identity
from gateway_core.contract.interfaces import Outcome
from gateway_core.contract.normal_form import normal_form
from gateway_core.delivery.deliveries import of_key
from tests.access.policy_rig import config, running
from tests.budget import examples

ONE = b"application/cloudevents+json"
MANY = b"application/cloudevents-batch+json"
RELEASED = {"cloudEventsVersion": "0.1", "eventID": "1", "source": "/s", "eventType": "admin.shutdown"}
LOWER = {"id": "1", "source": "/s", "type": "admin.shutdown"}
WHO = Identity("alice", "word", "user")
FORGED = "mallory"


def codec(mode: str = "binary", binding: Binding = HTTP) -> Any:
    context = BuildContext("test", Path(), SystemClock(), Registry(), binding=binding)
    return build(CloudEventsConfig.model_validate({"mode": mode}), context)


def structured(event: dict[str, Any]) -> Message:
    return Message([(b"content-type", ONE)], json.dumps(event).encode())


def binary(binding: Binding, event: dict[str, Any]) -> Message:
    """The event as headers, with JSON for what is no text; `extensions` of released 0.1 are headers of their own."""
    found = []
    infix = "x-" if binding.folds_case else "x_"
    for name, value in event.items():
        released = name == "extensions" and isinstance(value, dict) and "cloudEventsVersion" in event
        for key, v in ((f"{infix}{k}", v) for k, v in value.items()) if released else [(name, value)]:
            text = v if isinstance(v, str) else json.dumps(v)
            found.append((binding.prefix + key.encode(), text.encode()))
    return Message(found, b"")


def headers(prefix: str, event: dict[str, Any]) -> Message:
    found = []
    for name, value in event.items():
        members = value.items() if isinstance(value, dict) else [("", value)]
        infix = "" if not isinstance(value, dict) else "x-" if prefix == "ce-" else "x_"
        found += [(f"{prefix}{infix}{key or name}".encode(), str(v).encode()) for key, v in members]
    return Message(found, b"")


# -- a reader that believes every spelling ----------------------------------------------------------------------------


def told(message: Message) -> Iterator[tuple[str, Any]]:
    """Every name in a message, however deep and in whatever spelling, with its value. A reader of 1.0 knows one
    spelling only."""
    fields: Any = json.loads(message.body or b"") if message.header(b"content-type") or b"" else None
    if not isinstance(fields, dict):
        fields = {}
        released = any(name.lower()[3:] == b"cloudeventsversion" for name, _ in message.headers)
        prefixes = (b"ce-x-", b"ce_x_", b"ce-", b"ce_")[0 if released else 2 :]
        for name, value in message.headers:
            for prefix in prefixes:
                if name.lower().startswith(prefix):
                    fields[name[len(prefix) :].decode()] = unquote(value.decode()).strip('"')
                    break
    if fields.get("specversion") == "1.0":
        yield from fields.items()
        return
    inside: Any = fields.get("extensions")
    inside = inside if isinstance(inside, dict) else {}
    for name, value in [*fields.items(), *inside.items()]:
        plain = name.casefold()
        if "specversion" not in fields:  # the others read `a-b` as the member `b` of a map
            plain = "".join(c for c in plain if c.isalnum())
        yield {"eventtype": "type", "eventid": "id"}.get(plain, plain), value


def disagreement(message: Message, binding: Binding, marked: Callable[[Event, Identity], None] = mark) -> str:
    """How a subscriber's reading differs from what was checked, "" if it does not or the event is refused."""
    try:
        [event] = codec(binding=binding).decode(message)
    except Refused:
        return ""
    event.identity = WHO
    marked(event, WHO)
    checked = normal_form(event).attributes
    for mode in ("binary", "structured"):
        for out in (HTTP, KAFKA):
            try:
                written = codec(mode, out).encode(event)
            except Refused:
                continue
            for name, value in told(written):
                if name in ("type", "authid", "tenant") and str(value) != str(checked.get(name)):
                    return f"{mode} {out.name}: {name} is {value!r}, and was checked as {checked.get(name)!r}"
            again = normal_form(codec(binding=out).decode(written)[0]).attributes
            for name in ("type", "authid", "id", "tenant"):
                if again.get(name) != checked.get(name):
                    return f"{mode} {out.name}: {name} is read as {again.get(name)!r}"
    return "" if checked["authid"] == WHO.subject else f"authid is {checked['authid']!r}"


NAMES = [
    *("type", "Type", "TYPE", "eventtype", "EventType", "event-type", "t\u200bype", "authid", "AuthID", "AUTHID"),
    *("auth-id", "auth_id", "authtype", "specversion", "SpecVersion", "cloudeventsversion", "CloudEventsVersion"),
    *("id", "ID", "EventID", "extensions", "Extensions", "x", "tenant", "Tenant", "\uff54ype", "authId", "data"),
]
VALUES = st.sampled_from([FORGED, "order.placed", "1.0", "0.1", "\x07", ""])
MORE = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3)
VERSIONS = {
    "1.0": {"specversion": "1.0", **LOWER},
    "0.3": {"specversion": "0.3", **LOWER},
    "0.2": {"specversion": "0.2", **LOWER},
    "draft": {"specversion": "0.1", **LOWER},
    "released": RELEASED,
}
FORMS = ["structured", "ce-", "ce_"]


@pytest.mark.slow
@pytest.mark.spec("SAFE-100")
@examples(300)
@example("released", "structured", {"AuthID": FORGED}, {"authid": FORGED}, False)
@example("released", "structured", {}, {"type": "order.placed"}, False)
@example("released", "ce-", {}, {"type": "order.placed"}, False)
@example("released", "ce-", {"type": "order.placed"}, {}, True)
@example("released", "ce-", {}, {"Auth-Id": FORGED}, False)
@example("released", "ce_", {"AuthID": FORGED, "authid": FORGED}, {}, False)
@example("1.0", "ce-", {"cloudeventsversion": "0.1", "eventtype": "order.placed"}, {}, False)
@example("0.2", "structured", {}, {"authid": FORGED}, False)
@example("released", "structured", {"tenant": "a"}, {"tenant": "b"}, False)
@example("released", "ce_", {"tenant": "\x07"}, {"tenant": "b"}, False)
@given(st.sampled_from(sorted(VERSIONS)), st.sampled_from(FORMS), MORE, MORE, st.booleans())
def test_no_accepted_event_shows_another_sender_or_type_than_the_one_checked(
    version: str, form: str, beside: dict[str, str], inside: dict[str, str], first: bool
) -> None:
    base = VERSIONS[version]
    made: dict[str, Any] = {**beside, **base} if first else {**base, **beside}
    if inside:
        made["extensions"] = inside
    try:
        message = structured(made) if form == "structured" else headers(form, made)
    except UnicodeEncodeError:
        return
    assert disagreement(message, KAFKA if form == "ce_" else HTTP) == ""


# -- names that mean an attribute, whatever their value ---------------------------------------------------------------

ELSEWHERE = ("cloudeventsversion", "eventid", "eventtype", "eventtime", "extensions", "dataschema")
RELEASED_TAKEN = ("type", "id", "time", "specversion", "datacontenttype", "dataschema")
Names = tuple[tuple[str, ...], tuple[str, ...]]
HIDING: dict[str, list[Names]] = {
    "1.0": [(("cloudeventsversion",), ())],
    "0.3": [((name,), ()) for name in (*ELSEWHERE, "contenttype")],
    "0.2": [((name,), ()) for name in (*ELSEWHERE, "datacontenttype")],
    "draft": [((name,), ()) for name in (*ELSEWHERE, "datacontenttype")],
    "released": [
        *[((name,), ()) for name in RELEASED_TAKEN if name != "specversion"],
        *[((), (name,)) for name in (*RELEASED_TAKEN, "Type", "event-Type", "source", "eventID", "EVENTTIME", "Data")],
        *[(("tenant",), ("tenant",)), (("tenant",), ("Tenant",)), (("Tenant",), ("tenant",))],
        *[((), ("tenant", "Tenant")), (("tenant", "Tenant"), ())],
    ],
}
"""By version: names beside and inside `extensions`, for which the event is refused."""
ANY: list[Any] = ["a", "", "0.1", "\x07", "\uffff", {}, {"a": 1}, [], 1.5, 2**40, True, 0]
UNFIT: list[dict[str, Any]] = [{}, {"word": "\x07"}, {"time": "now"}, {"eventTime": "now"}]
DOORS: dict[str, Callable[[dict[str, Any]], tuple[Binding, Message]]] = {
    "structured": lambda event: (HTTP, structured(event)),
    "batch": lambda event: (HTTP, Message([(b"content-type", MANY)], json.dumps([event]).encode())),
    **{b.name: lambda event, b=b: (b, binary(b, event)) for b in (HTTP, KAFKA, MQTT, NATS, AMQP)},  # type: ignore[misc]
}


def taken(version: str, names: Names, door: str, values: list[Any], more: dict[str, Any]) -> str:
    """What becomes of an event with these names, which get the values in turn: "" if it is refused."""
    beside, inside = names
    event = {**VERSIONS[version], **more, **dict(zip(beside, values, strict=False))}
    if inside:
        event["extensions"] = dict(zip(inside, values[len(beside) :], strict=False))
    binding, message = DOORS[door](event)
    reader = codec(binding=binding)
    reader.decode(DOORS[door](VERSIONS[version])[1])  # what was learnt of a good one lets no other through
    try:
        found = reader.decode(message)
    except Refused as e:
        return "" if e.status == 400 else str(e.status)
    names_left = {name.lower() for name in found[0].attributes}
    unfit = all(isinstance(v, str) and forbidden_character(v) for v in values)
    if len(beside) > 1 and unfit and not names_left & {n.lower() for n in beside}:
        return ""  # two headers that differ in case only, with values that none may have: nothing of them is left
    return f"{event} is taken as {found[0].attributes}"


@pytest.mark.spec("SAFE-125", "BR-15")
@examples(400)
@example(("released", (("tenant", "Tenant"), ())), "kafka", ["\x07", "\x07"], {})
@example(("released", (("tenant", "Tenant"), ())), "kafka", ["\x07", "\uffff"], {})
@example(("released", (("tenant",), ("tenant",))), "structured", ["a", "b"], {})
@example(("released", ((), ("Tenant", "tenant"))), "batch", ["b", "a"], {})
@example(("released", (("time",), ())), "http", ["\x07", "a"], {})
@example(("0.3", (("eventtime",), ())), "http", ["\x07", "a"], {})
@example(("0.3", (("eventtype",), ())), "structured", [{}, "a"], {})
@example(("1.0", (("cloudeventsversion",), ())), "structured", [{}, "a"], {})
@example(("1.0", (("cloudeventsversion",), ())), "http", ["0.1", "a"], {"time": "now"})
@given(
    st.sampled_from([(version, names) for version, found in HIDING.items() for names in found]),
    st.sampled_from(sorted(DOORS)),
    st.lists(st.sampled_from(ANY), min_size=2, max_size=2),
    st.sampled_from(UNFIT),
)
def test_no_value_hides_a_name_that_means_an_attribute(
    hiding: tuple[str, Names], door: str, values: list[Any], more: dict[str, Any]
) -> None:
    assert taken(*hiding, door, values, more) == ""


def only_plain_names(event: Event, who: Identity) -> None:
    event.attributes |= {"authtype": who.type, "authid": who.subject}


@pytest.mark.spec("SAFE-100")
@pytest.mark.parametrize("inside", ["Auth_ID", "auth-id"])
def test_the_search_finds_a_mark_that_knows_one_spelling_only(inside: str) -> None:
    message = structured({**RELEASED, "extensions": {inside: FORGED}})
    assert disagreement(message, HTTP) == ""
    assert "mallory" in disagreement(message, HTTP, only_plain_names)


@pytest.mark.spec("SAFE-100", "AC-03")
@pytest.mark.parametrize("who", [WHO, ANONYMOUS], ids=["known", "anonymous"])
def test_a_mark_takes_the_place_of_every_spelling(who: Identity) -> None:
    inside = {"authid": FORGED, "Auth-Type": "system", "AUTHCLAIMS": "{}"}
    event = Event({**RELEASED, "AuthID": FORGED, "extensions": inside})
    mark(event, who)
    marks = {"authtype": who.type} | ({"authid": "alice"} if who is WHO else {})
    assert event.attributes == {**RELEASED, **marks}
    kept = Event({**RELEASED, "extensions": {"authid": FORGED, "tenant": "a"}})
    mark(kept, who)
    assert kept.attributes == {**RELEASED, "extensions": {"tenant": "a"}, **marks}


@pytest.mark.anyio
@pytest.mark.spec("SAFE-100", "PO-01")
async def test_a_policy_checks_the_type_of_every_version(tmp_path: Path) -> None:
    policies = "{p: {brokers: [default], from: [ann], filters: [{prefix: {type: order.}}]}, "
    policies += "q: {brokers: [default], from: [bob], filters: [{not: {exact: {type: admin.shutdown}}}]}}"
    order = {**RELEASED, "eventType": "order.placed"}
    cases: list[tuple[str, dict[str, Any], int]] = [
        ("ann", RELEASED, 403),
        ("bob", RELEASED, 403),
        ("ann", order, 202),
        ("bob", order, 202),
        ("ann", {**RELEASED, "type": "order.placed"}, 400),
        ("ann", {**RELEASED, "extensions": {"type": "order.placed"}}, 400),
        ("ann", {**RELEASED, "extensions": {"Type": "order.placed"}}, 400),
        ("bob", {**RELEASED, "extensions": {"type": "order.placed"}}, 400),
        ("ann", {**order, "extensions": {"cloudeventsversion": "1.0"}}, 400),
        ("ann", {"specversion": "0.2", **LOWER, "eventtype": "order.placed"}, 400),
        ("ann", {"specversion": "0.2", **LOWER, "type": "order.placed"}, 202),
    ]
    async with running(config(policies), tmp_path) as (rig, client):
        for who, event, status in cases:
            sender = {"x-word": json.dumps({"subject": who})}
            body = {"content": json.dumps(event), "headers": {**sender, "content-type": ONE.decode()}}
            fields = dict(headers("ce-", event).headers)
            for request in (body, {"headers": {**{k.encode(): v.encode() for k, v in sender.items()}, **fields}}):
                answer = await client.post(rig.url("default"), **request)  # type: ignore[arg-type]
                assert answer.status_code == status, (who, event, answer.text)


TENANTS: list[tuple[dict[str, Any], dict[str, str]]] = [
    *[({"tenant": "a"}, {name: "b"}) for name in ("tenant", "Tenant")],
    *[({}, {"Tenant": "b", "tenant": "a"}), ({}, {"tenant": "a", "Tenant": "b"})],
    *[({"tenant": "a"}, {name: "b"}) for name in ("type", "event-Type", "source", "eventID")],
    ({"tenant": "\x07"}, {"tenant": "a"}),
]


@pytest.mark.anyio
@pytest.mark.spec("SAFE-125", "PO-01")
async def test_a_policy_lets_no_second_tenant_or_type_through(tmp_path: Path) -> None:
    policies = "{p: {brokers: [default], from: [ann], filters: [{exact: {tenant: a}}]}}"
    async with running(config(policies), tmp_path) as (rig, client):

        async def status(message: Message) -> int:
            fields = [(b"x-word", b'{"subject": "ann"}'), *message.headers]
            answer = await client.post(rig.url("default"), content=message.body or b"", headers=fields)
            return answer.status_code

        for tenant, expected in [("a", 202), ("b", 403)]:
            event = {**RELEASED, "extensions": {"Tenant": tenant}}
            assert [await status(structured(event)), await status(binary(HTTP, event))] == [expected] * 2
        for beside, inside in TENANTS:
            event = {**RELEASED, **beside, "extensions": inside}
            assert await status(structured(event)) == 400, event
            if "\x07" not in beside.values():  # which HTTP has not
                assert await status(binary(HTTP, event)) == 400, event


@pytest.mark.spec("SAFE-100")
def test_filters_routes_keys_and_loop_guards_go_by_the_normal_form() -> None:
    event = Event({**RELEASED, "extensions": {"PartitionKey": "k", "Tenant": "a"}})
    wanted = attributes_filter({"type": "admin.shutdown", "tenant": "a"})
    guarded = FilterGuard(not_of(wanted), "a test's filter").filter
    router: Router[str] = Router()
    router.add("one", wanted, "one")
    assert wanted.matches(event)
    assert not guarded.matches(event)
    assert router.route(event) == ["one"]
    assert of_key(event) == b"k"
    context = BuildContext("test", Path(), SystemClock(), Registry())
    assert build_attribute(AttributeKeyConfig(name="type", required=True), context)(event) == b"admin.shutdown"
    assert attributes_filter({"eventType": "admin.shutdown"}).matches(event)
    assert not attributes_filter({"eventType": "admin.shutdown"}).matches(Event({"specversion": "1.0", **LOWER}))


@pytest.mark.spec("SAFE-100")
def test_a_dead_letter_has_its_facts_once() -> None:
    event = Event({**RELEASED, "extensions": {"TidegateReason": "all is well", "tenant": "a"}})
    letter = with_facts(
        event, Outcome(False, reason="refused"), trigger="t", dest="d", attempts=1, first_ns=1, last_ns=1
    )
    assert letter.attributes["extensions"] == {"tenant": "a"}
    assert [v for name, v in told(codec("structured").encode(letter)) if name == "tidegatereason"] == ["refused"]


@pytest.mark.spec("SAFE-100")
@pytest.mark.parametrize(
    "kind", ["application/cloudevents+avro", "application/cloudevents", "Application/CloudEvents-x"]
)
def test_no_data_is_sent_as_an_event_of_a_format_that_was_not_read(kind: str) -> None:
    """Its content type would tell a reader of that format to look for the event in the data."""
    event = Event({"specversion": "1.0", **LOWER, "datacontenttype": kind}, b"\x00another event")
    for refused in (
        {"specversion": "1.0", **LOWER, "datacontenttype": kind, "data": "x"},
        {"specversion": "1.0", **LOWER, "datacontenttype": kind, "data_base64": "AA=="},
        {"specversion": "0.3", **LOWER, "datacontenttype": kind, "datacontentencoding": "base64", "data": "AA=="},
        {**RELEASED, "contentType": kind, "data": "AA=="},
    ):
        with pytest.raises(Refused, match="unknown"):
            codec().decode(structured(refused))
    written = codec("binary").encode(event)
    assert written.header(b"content-type") == b"application/cloudevents+json; charset=utf-8"
