"""The whole gateway as a user runs it: a real process, real HTTP, a real subscriber."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest
from gateway_testing import GatewayProcess, Subscriber

from tests import web
from tests.processes import alive

pytestmark = pytest.mark.usefixtures("processes")

BROKER = """
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:0", path: /in}
"""


def config(*triggers: str) -> str:
    return BROKER + "triggers:\n" + "".join(triggers)


def trigger(name: str, url: str, more: str = "") -> str:
    return f"  {name}:\n    subscriber: {url}\n" + "".join(f"    {line}\n" for line in more.splitlines())


def binary(id: str, type: str = "t.a", source: str = "/s", **more: str) -> dict[str, str]:
    headers = {"ce-specversion": "1.0", "ce-id": id, "ce-source": source, "ce-type": type}
    return {**headers, **{f"ce-{k}": v for k, v in more.items()}}


def post(gateway: GatewayProcess, headers: Mapping[str, str], body: bytes = b"") -> httpx.Response:
    return web.post(gateway.ingress(), headers=headers, content=body, verify=False)


@pytest.mark.spec("DP-01", "DP-02", "DP-03", "BR-10", "BR-14", "BR-16", "BR-17", "CARD-04")
def test_events_of_all_modes_arrive_as_they_came(tmp_path: Path) -> None:
    with Subscriber() as s, Subscriber() as t:
        text = config(
            trigger("binary", s.url),
            trigger("structured", f"{{http: {{url: '{t.url}', codec: {{cloudevents: {{mode: structured}}}}}}}}"),
        )
        with GatewayProcess(text, tmp_path) as g:
            sent = {"1": b"\x00\xff\r\n bytes", "2": b'{"a": 1.0,  "b":[true,null]}', "3": b'{"n":3}', "4": b'{"n":4}'}
            answers = [
                post(
                    g,
                    binary("1", subject="\u20ac 100%".encode().hex(), time="2026-01-02T03:04:05.10Z")
                    | {"content-type": "application/x-thing"},
                    sent["1"],
                ),
                post(
                    g,
                    {"content-type": "application/cloudevents+json; charset=UTF-8"},
                    b'{"specversion":"1.0","id":"2","source":"/s","type":"t.a","hops":5,"ok":true,"data":'
                    + sent["2"]
                    + b"}",
                ),
                post(
                    g,
                    {"content-type": "application/cloudevents-batch+json"},
                    b"["
                    + b",".join(
                        b'{"specversion":"1.0","id":"%d","source":"/s","type":"t.a","datacontenttype":"application/json","data":{"n":%d}}'
                        % (i, i)
                        for i in (3, 4)
                    )
                    + b"]",
                ),
            ]
            assert [a.status_code for a in answers] == [202, 202, 202]
            got = {r.headers["ce-id"]: r for r in s.wait_for(4)}
            assert {i: r.body for i, r in got.items()} == sent
            one = got["1"].headers
            assert one["content-type"] == "application/x-thing"
            assert one["ce-time"] == "2026-01-02T03:04:05.10Z"
            assert one["ce-specversion"] == "1.0"
            assert (got["2"].headers["ce-hops"], got["2"].headers["ce-ok"]) == ("5", "true")
            documents = {d["id"]: d for d in (json.loads(r.body) for r in t.wait_for(4))}
            assert documents["2"] == {
                "specversion": "1.0", "id": "2", "source": "/s", "type": "t.a", "hops": 5, "ok": True,
                "data": {"a": 1.0, "b": [True, None]},
            }  # fmt: skip
            assert documents["3"]["data"] == {"n": 3}
            assert "data_base64" in documents["1"]


@pytest.mark.spec("BR-08", "BR-20", "BR-21")
def test_routing_by_attributes(tmp_path: Path) -> None:
    with Subscriber() as s:
        text = config(
            trigger("typed", s.url + "typed", "filter: {type: t.a}"),
            trigger("both", s.url + "both", "filter: {type: t.a, tenant: emea}"),
            trigger("again", s.url + "typed", "filters: [exact: {type: t.a}]"),
            trigger("present", s.url + "present", "filter: {tenant: ''}"),
        )
        with GatewayProcess(text, tmp_path) as g:
            for headers in (
                binary("1", "t.a"),
                binary("2", "t.a", tenant="emea"),
                binary("3", "t.b", tenant="apac"),
                binary("4", "t.c"),
            ):
                assert post(g, headers).status_code == 202
            got = sorted((r.path, r.headers["ce-id"]) for r in s.wait_for(7))
            typed = [("/typed", "1")] * 2 + [("/typed", "2")] * 2
            assert got == [("/both", "2"), ("/present", "2"), ("/present", "3"), *typed]
            g.wait_until(g.drained)
            broker = g.status()["brokers"][0]
            assert (broker["accepted"], broker["unrouted"]) == (4, 1)


@pytest.mark.spec("DP-15", "DP-16")
def test_duplicates_are_accepted_and_nothing_is_taken_for_one(tmp_path: Path) -> None:
    with Subscriber() as s, GatewayProcess(config(trigger("all", s.url)), tmp_path) as g:
        for headers in (
            binary("1", source="/a"),
            binary("1", source="/a"),
            binary("1", source="/b"),
            binary("2", source="/a"),
        ):
            assert post(g, headers).status_code == 202
        got = sorted((r.headers["ce-source"], r.headers["ce-id"]) for r in s.wait_for(4))
        assert got == [("/a", "1"), ("/a", "1"), ("/a", "2"), ("/b", "1")]


@pytest.mark.spec("BR-13", "BR-15", "DP-05", "DP-27")
def test_what_can_not_be_taken_is_refused_and_counted(tmp_path: Path) -> None:
    with Subscriber() as s, GatewayProcess(config(trigger("all", s.url)), tmp_path) as g:
        bad = post(g, {"ce-specversion": "1.0", "ce-source": "/s", "ce-type": "t"})
        assert bad.status_code == 400
        assert bad.headers["content-type"].startswith("application/problem+json")
        assert bad.json()["attribute"] == "id"
        assert web.get(g.ingress(), verify=False).status_code == 405
        assert web.get(g.ingress(), verify=False).headers["allow"]
        assert web.post(g.ingress() + "/elsewhere", verify=False).status_code == 404
        assert "POST" in web.options(g.ingress(), verify=False).headers["allow"]
        assert post(g, binary("good")).status_code == 202
        assert [r.headers["ce-id"] for r in s.wait_for(1)] == ["good"]
        broker = g.status()["brokers"][0]
        assert (broker["accepted"], broker["refused"]) == (1, 1)


@pytest.mark.spec("BR-18", "DP-14", "DP-07")
def test_a_subscriber_that_is_away_gets_its_events_when_it_is_back(tmp_path: Path) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        text = config(trigger("away", f"http://127.0.0.1:{port}/", "delivery: {retry: 1000, backoff_max_s: 0.5}"))
        with GatewayProcess(text, tmp_path) as g:
            for i in range(20):
                assert post(g, binary(str(i)), b"x").status_code == 202
            g.wait_until(lambda: g.trigger("away")["retried"] > 0)
            assert not g.trigger("away")["ready"]
            assert g.trigger("away")["lag"] == 20
            g.kill()
    with Subscriber(port=port) as s:
        g.start()
        assert {r.headers["ce-id"] for r in s.wait_for(20)} == {str(i) for i in range(20)}
        g.wait_until(g.drained)
        assert g.trigger("away")["ready"]
        assert g.stop() == 0
        # nothing is delivered again after a clean stop
        count = len(s.requests)
        g.start()
        assert post(g, binary("last")).status_code == 202
        s.wait_for(count + 1)
        assert [r.headers["ce-id"] for r in s.requests[count:]] == ["last"]
        g.stop()


@pytest.mark.spec("BR-19", "DP-18", "DP-13")
def test_after_its_retries_an_event_is_in_the_dead_letter_and_the_operator_is_told(tmp_path: Path) -> None:
    text = config(trigger("down", "{url}", "delivery: {retry: 2, backoff_delay_s: 0.01}"), trigger("well", "{url}well"))
    with Subscriber(decide=lambda r: 202 if r.path == "/well" else (503, {}, b"down")) as s:
        text = text.replace("{url}", s.url)
        with GatewayProcess(text, tmp_path) as g:
            body = b"\x00 raw \xff"
            assert post(g, binary("1") | {"content-type": "application/octet-stream"}, body).status_code == 202
            g.wait_until(lambda: g.trigger("down")["dead_lettered"] == 1)
            assert len([r for r in s.requests if r.path == "/"]) == 3
            down = g.trigger("down")
            assert (down["attempts"], down["retried"], down["delivered"]) == (3, 2, 0)
            assert "503" in down["last_error"]
            assert g.trigger("well")["delivered"] == 1
            assert "dead letter" in g.log()
            letters = list((g.data_dir / "dead-letter").glob("*.jsonl"))
            assert len(letters) == 1
            letter = json.loads(letters[0].read_text())["event"]
            assert letter["knativeerrorcode"] == "503"
            assert letter["knativeerrordest"] == s.url
            assert letter["tidegateattempts"] == 3
            g.wait_until(g.drained)


def test_a_stop_finishes_what_is_under_way_and_loses_nothing(tmp_path: Path) -> None:
    with Subscriber() as s, GatewayProcess(config(trigger("all", s.url)), tmp_path) as g:
        accepted = 0
        with web.client(verify=False) as client:
            for i in range(300):
                accepted += client.post(g.ingress(), headers=binary(str(i))).status_code == 202
        assert g.stop() == 0
        assert not (g.data_dir / "gateway.json").exists()
        g.start()
        g.wait_until(g.drained)
        assert {r.headers["ce-id"] for r in s.requests} == {str(i) for i in range(accepted)}
        assert len(s.requests) == accepted


def test_live_and_ready(tmp_path: Path) -> None:
    with Subscriber() as s, GatewayProcess(config(trigger("all", s.url)), tmp_path) as g:
        assert g.admin("/health/live").status_code == 200
        assert g.admin("/health/ready").status_code == 200
        status = g.status()
        assert status["ready"]
        assert status["brokers"][0]["ready"]
        assert status["triggers"][0]["ready"]


def test_a_bridge_answers_when_its_sink_has_the_event(tmp_path: Path) -> None:
    text = """
bridges:
  across:
    source: {http: {listen: "127.0.0.1:0", path: /b}}
    sink: URL
"""
    with Subscriber([202, 503]) as s, GatewayProcess(text.replace("URL", s.url), tmp_path) as g:
        url = g.ingress("across")
        assert web.post(url, headers=binary("1"), content=b"x", verify=False).status_code == 202
        assert s.requests[0].body == b"x"
        failed = web.post(url, headers=binary("2"), verify=False)
        assert failed.status_code == 503
        assert failed.headers["retry-after"]


def test_a_second_gateway_on_the_same_data_is_refused(tmp_path: Path) -> None:
    with Subscriber() as s, GatewayProcess(config(trigger("all", s.url)), tmp_path) as g:
        with pytest.raises(AssertionError, match=r"(?s)ended with 3.*data"):
            GatewayProcess(config(trigger("all", s.url)), tmp_path).start()
        assert post(g, binary("1")).status_code == 202


def test_workers_share_the_ingress_and_their_counts_are_added(tmp_path: Path) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
    text = config(trigger("all", "{url}")).replace("127.0.0.1:0", f"127.0.0.1:{port}")
    with Subscriber() as s:
        with GatewayProcess(text.replace("{url}", s.url), tmp_path, None, "--workers", "2") as g:
            g.wait_until(lambda: len(list((g.data_dir / "log" / "default").glob("*.db"))) == 2)
            g.wait_until(lambda: g.status()["workers"] == 2)
            sent = 0
            # a connection belongs to one worker: new ones until both had some
            while sent < 60:
                sent += web.post(g.ingress(), headers=binary(str(sent)), verify=False).status_code == 202
            s.wait_for(60)
            g.wait_until(lambda: g.status()["brokers"][0]["accepted"] == 60)
            g.wait_until(lambda: g.trigger("all")["delivered"] == 60)
            assert g.status()["brokers"][0]["channel"]["shards"].keys() == {"0", "1"}
            assert g.stop() == 0
        # one worker takes over what two have left
        g.start()
        g.wait_until(g.drained)
        assert len(s.requests) == 60
        g.stop()


def test_several_workers_need_a_fixed_port(tmp_path: Path) -> None:
    with (
        Subscriber() as s,
        pytest.raises(AssertionError, match=r"(?s)ended with 1:.*brokers.default.ingress\[0\].*fixed"),
    ):
        GatewayProcess(config(trigger("all", s.url)), tmp_path, None, "--workers", "2").start()


def test_a_gateway_that_does_not_open_leaves_no_process(tmp_path: Path) -> None:
    class Stuck(GatewayProcess):
        launcher = ("/bin/sh", "-c", "exec sleep 600")

        def start(self, timeout_s: float = 0.2) -> None:
            super().start(timeout_s)

    gateway = Stuck("", tmp_path)
    with pytest.raises(AssertionError, match=r"waited 0\.2 s for the gateway to start"), gateway:
        pass
    assert not alive(gateway.pid)
