"""The MQTT source at mosquitto: sessions, order, back-pressure, retained messages, what is not an event."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from gateway_dev import servers
from gateway_dev.servers import Server
from gateway_mqtt.config import MqttSourceConfig
from gateway_mqtt.subscriptions import Members
from gateway_testing.suites.kit import until

from gateway_core.contract.event import Message
from tests.mqtt.publisher import Publisher, Subscriber
from tests.mqtt.sources import AnsweringIntake, build, message, publish, running, unique
from tests.mqtt.tap import Tap

pytestmark = pytest.mark.anyio


class Lab:
    """A topic of the shared server, with a tap and a publisher."""

    def __init__(self, folder: Path, port: int, tap: Tap, publisher: Publisher) -> None:
        self.folder = folder
        self.port = port
        self.tap = tap
        self.publisher = publisher
        self.topic = f"lab/{unique(folder)}"

    def options(self, **more: Any) -> dict[str, Any]:
        return {"server": f"127.0.0.1:{self.tap.port}", "topic": f"{self.topic}/#", **more}

    async def publish(self, *ids: str, **more: Any) -> None:
        await publish(self.publisher, f"{self.topic}/a", *map(message, ids), **more)

    async def settled(self, count: int) -> None:
        await until(lambda: len(self.tap.settled) == count, f"{count} acknowledgements")


@pytest.fixture
def lab(tmp_path: Path, mqtt_server: Server) -> Iterator[Lab]:
    with Tap(mqtt_server.port) as tap, Publisher(mqtt_server.port) as publisher:
        yield Lab(tmp_path, mqtt_server.port, tap, publisher)


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.spec("MQ-06", "MQ-08")
async def test_acknowledgements_keep_the_order_of_the_messages(lab: Lab, qos: int) -> None:
    intake = AnsweringIntake(stores=False)
    intake.hold = True
    source, places = build(lab.folder, lab.options(qos=qos)), []
    source.witness(lambda events, origin: places.append((events[0].attributes["id"], origin.place)))
    async with running(source, intake):
        await lab.publish("0", "1", "2", qos=qos)
        await until(lambda: len(intake.answers) == 3, "the events")
        assert places == [(id, f"topic {lab.topic}/a") for id in "012"]
        source.witness(None)
        intake.answers[2](None)
        intake.answers[1](None)
        await lab.publish("3")
        await until(lambda: len(intake.answers) == 4, "the fourth event")
        assert lab.tap.settled == []
        intake.answers[0](None)
        await lab.settled(3)
        assert lab.tap.acknowledged == [m.mid for m in lab.tap.sent[:3]]
        intake.answers[3](None)
        await lab.settled(4)


@pytest.mark.spec("MQ-10")
async def test_the_receive_maximum_bounds_what_is_under_way(lab: Lab) -> None:
    intake = AnsweringIntake()
    intake.hold = True
    async with running(build(lab.folder, lab.options(receive_maximum=3)), intake):
        await lab.publish(*map(str, range(10)))
        await until(lambda: len(lab.tap.sent) == 3, "the first messages")
        await lab.publish("10")
        assert len(lab.tap.sent) == 3
        intake.hold = False
        while intake.answers:
            intake.answers.pop()(None)
        await until(lambda: len(intake.events) == 11, "all messages")
    assert intake.ids == [str(n) for n in range(11)]


@pytest.mark.spec("MQ-10", "MQ-07")
async def test_beyond_twice_the_receive_maximum_nothing_more_is_read(lab: Lab) -> None:
    intake = AnsweringIntake()
    intake.hold = True
    source = build(lab.folder, lab.options(receive_maximum=2, qos=0))
    async with running(source, intake):
        assert source.info()["delivers"] == "at most once"
        await lab.publish(*map(str, range(30)))
        await until(lambda: source.info()["lag"] == 4, "the pause")
        intake.hold = False
        intake.answers.pop()(None)
        await until(lambda: len(intake.events) == 30, "all messages")
    assert intake.ids == [str(n) for n in range(30)]


@pytest.mark.spec("MQ-11")
async def test_a_session_is_resumed(lab: Lab) -> None:
    async with running(build(lab.folder, lab.options())) as intake:
        await lab.publish("0")
        await lab.settled(1)
    await lab.publish("1", "2")
    source = build(lab.folder, lab.options())
    async with running(source) as intake:
        await until(lambda: len(intake.events) == 2, "what was published meanwhile")
        assert intake.ids == ["1", "2"]
        assert source.info()["session"] == "resumed"


@pytest.mark.parametrize("version", ["5", "3.1.1"])
@pytest.mark.spec("MQ-12")
async def test_a_broken_connection_repeats_what_was_not_acknowledged(
    lab: Lab, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tidegate")
    intake = AnsweringIntake()
    intake.hold = True
    source = build(lab.folder, lab.options(version=version))
    async with running(source, intake):
        document = b'{"specversion":"1.0","id":"0","source":"/s","type":"t"}'
        structured = Message([(b"content-type", b"application/cloudevents+json")], document)
        await publish(lab.publisher, f"{lab.topic}/a", structured)
        await until(lambda: len(intake.answers) == 1, "the event")
        lab.tap.cut()
        await until(lambda: source.info()["losses"] == 1, "the loss")
        intake.hold = False
        intake.answers[0](None)  # too late for the first connection
        await lab.settled(1)
        assert intake.ids == ["0", "0"]
        await until(lambda: source.info()["error"] is None, "the connection")
    said = [record.message for record in caplog.records if "test.source" in record.message]
    assert ["lost its connection" in text for text in said] == [True, False], said
    assert "is connected" in said[1]


@pytest.mark.spec("MQ-12")
async def test_a_server_that_is_killed_and_restarted(tmp_path: Path, processes: None) -> None:
    with servers.mqtt(tmp_path / "server") as server:
        options = {"server": f"127.0.0.1:{server.port}", "topic": "t"}
        source = build(tmp_path, options)
        async with running(source) as intake:
            with Publisher(server.port) as publisher:
                await publish(publisher, "t", message("before"))
                await until(lambda: len(intake.events) == 1, "the first event")
                server.kill()
                await until(lambda: source.info()["error"] is not None, "the error in status")
            await anyio.to_thread.run_sync(server.start)
            await until(lambda: source.info()["error"] is None, "the connection")
            with Publisher(server.port) as publisher:
                await publish(publisher, "t", message("after"))
            await until(lambda: "after" in intake.ids, "the event after the restart")


@pytest.mark.spec("MQ-09")
async def test_a_shared_subscription_spreads_the_events(lab: Lab) -> None:
    one = build(lab.folder, lab.options(group="g"), workers=2)
    other = build(lab.folder, lab.options(group="g"), worker=1, workers=2)
    assert one.shares
    assert other.shares
    assert not build(lab.folder, lab.options()).shares
    async with running(one) as first, running(other) as second:
        await lab.publish(*map(str, range(20)))
        await until(lambda: len(first.events) + len(second.events) == 20, "all events")
        assert first.events
        assert second.events
        assert sorted(first.ids + second.ids, key=int) == [str(n) for n in range(20)]


@pytest.mark.spec("MQ-09")
async def test_the_session_of_a_worker_that_is_no_more_is_emptied_and_ended(lab: Lab) -> None:
    options = lab.options(group="g")
    for worker in (0, 1):
        async with running(build(lab.folder, options, worker=worker, workers=2)):
            pass
    await lab.publish(*map(str, range(20)))
    async with running(build(lab.folder, options)) as intake:
        await until(lambda: len(intake.events) == 20, "what waited in both sessions")
        await until(
            lambda: Members(lab.folder, MqttSourceConfig(**options), unique(lab.folder)).before() == 1, "the end"
        )
        await lab.publish(*map(str, range(20, 30)))
        await until(lambda: len(intake.events) == 30, "all events in the worker that is left")
    assert sorted(intake.ids, key=int) == [str(n) for n in range(30)]


@pytest.mark.parametrize(
    ("retained", "version", "expected"),
    [
        ("new", "5", (1, 0)),
        ("all", "5", (1, 1)),
        ("ignore", "5", (0, 0)),
        (None, "3.1.1", (1, 1)),
        ("ignore", "3.1.1", (0, 0)),
    ],
)
@pytest.mark.spec("MQ-13", "MQ-03")
async def test_retained_messages(lab: Lab, retained: str | None, version: str, expected: tuple[int, int]) -> None:
    document = b'{"specversion":"1.0","id":"kept","source":"/s","type":"t"}'
    structured = Message([(b"content-type", b"application/cloudevents+json")], document)
    await publish(lab.publisher, f"{lab.topic}/r", structured, retain=True)
    options = lab.options(retained=retained, version=version)
    for count in expected:
        async with running(build(lab.folder, options)) as intake:
            await lab.publish("mark") if version == "5" else await publish(
                lab.publisher, f"{lab.topic}/m", Message([], document.replace(b"kept", b"mark"))
            )
            await until(lambda: "mark" in intake.ids, "the mark")
            assert intake.ids.count("kept") == count


@pytest.mark.spec("MQ-14")
async def test_the_will_is_published_when_the_connection_breaks(lab: Lab) -> None:
    topic = f"{lab.topic}-will"
    will = {"topic": topic, "payload": "gone", "retain": False}
    with Subscriber(lab.port, topic) as heard:
        async with running(build(lab.folder, lab.options(will=will))):
            pass
        async with running(build(lab.folder, lab.options(will={**will, "payload": "broken"}))):
            lab.tap.cut()
            await until(lambda: len(heard.messages) > 0, "the will")
        assert [m.payload for m in heard.messages] == [b"broken"]


@pytest.mark.spec("MQ-22")
async def test_a_topic_that_left_the_config_comes_no_more(lab: Lab) -> None:
    two = lab.options(topic=[f"{lab.topic}/a", f"{lab.topic}/b"])
    async with running(build(lab.folder, two)):
        pass
    async with running(build(lab.folder, lab.options(topic=f"{lab.topic}/a"))) as intake:
        await publish(lab.publisher, f"{lab.topic}/b", message("b"))
        await publish(lab.publisher, f"{lab.topic}/a", message("a"))
        await until(lambda: "a" in intake.ids, "the event")
        assert intake.ids == ["a"]


# -- what publishers send ---------------------------------------------------------------------------------------------


@pytest.mark.spec("MQ-04")
async def test_what_is_no_attribute_disturbs_no_event(lab: Lab) -> None:
    odd = message("\ufeff1", note="\ufeff text")
    odd.headers += [(b"X-Request", b"1"), (b"", b"2"), (b"data", b"3"), (b"with space", b"4")]
    # without the tap: it reads as paho does, which takes U+FEFF for a fault
    async with running(build(lab.folder, lab.options(server=f"127.0.0.1:{lab.port}"))) as intake:
        await publish(lab.publisher, f"{lab.topic}/\u00e4", odd)
        await publish(lab.publisher, f"{lab.topic}/b", message("2"))
        await until(lambda: len(intake.events) == 2, "the events")
    assert intake.ids == ["\ufeff1", "2"]
    assert set(intake.events[0].attributes) == {"specversion", "source", "type", "id", "datacontenttype", "note"}


@pytest.mark.spec("MQ-18")
@pytest.mark.parametrize("what", ["dead_letter", "wrap", "drop"])
async def test_a_message_that_is_no_event_holds_up_no_other(lab: Lab, what: str) -> None:
    poison = Message([(b"content-type", b"text/plain"), (b"unit", b"C")], b"21.5")
    async with running(build(lab.folder, lab.options(not_an_event=what))) as intake:
        await lab.publish("1")
        await publish(lab.publisher, f"{lab.topic}/kitchen", poison)
        await lab.publish("2")
        await lab.settled(3)
    assert (len(intake.letters), len(intake.refused)) == {"dead_letter": (1, 0), "wrap": (0, 0), "drop": (0, 1)}[what]
    made = {"dead_letter": [e for e, _, _ in intake.letters], "wrap": intake.events[1:2], "drop": []}[what]
    for event in made:
        topic = f"{lab.topic}/kitchen"
        assert event.data == b"21.5"
        assert (event.attributes["source"], event.attributes["subject"]) == (f"mqtt:/{topic}", topic)
        assert event.attributes["type"] == "dev.tidegate.mqtt.message"
        assert (event.attributes["mqttheaderunit"], event.attributes["datacontenttype"]) == ("C", "text/plain")


@pytest.mark.spec("MQ-19")
async def test_the_topic_as_attribute_and_key(lab: Lab) -> None:
    async with running(build(lab.folder, lab.options(topic_attribute="mqtttopic", key="topic"))) as intake:
        await lab.publish("1")
        await until(lambda: len(intake.events) == 1, "the event")
    assert intake.events[0].attributes["mqtttopic"] == f"{lab.topic}/a"
    assert intake.events[0].key == f"{lab.topic}/a".encode()


@pytest.mark.spec("MQ-02", "MQ-03")
async def test_a_client_of_3_1_1_sends_structured_events_to_one_of_5(lab: Lab) -> None:
    from paho.mqtt.client import MQTTv311

    document = b'{"specversion":"1.0","id":"3","source":"/s","type":"t","data":{"a":1}}'
    async with running(build(lab.folder, lab.options())) as intake:
        with Publisher(lab.port, MQTTv311) as old:
            await publish(old, f"{lab.topic}/a", Message([], document))
        await until(lambda: len(intake.events) == 1, "the event")
    assert intake.events[0].data == b'{"a":1}'


@pytest.mark.spec("MQ-21")
async def test_a_gateway_that_traces_takes_the_context_from_user_properties(lab: Lab) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    for traces in (True, False):
        async with running(build(lab.folder, lab.options(), traces=traces)) as intake:
            await publish(lab.publisher, f"{lab.topic}/a", message("1", traceparent=parent))
            await until(lambda: len(intake.events) == 1, "the event")
        (event,) = intake.events
        assert event.trace == (parent if traces else None)
        assert event.attributes.get("traceparent") == (None if traces else parent)


async def test_it_stops_while_the_server_is_away(tmp_path: Path) -> None:
    source = build(tmp_path, {"server": "127.0.0.1:1", "topic": "t", "connect_timeout_s": 1})
    with anyio.fail_after(30):
        async with running(source):
            assert "refused" in str(source.info()["error"]).lower()
