"""What the admin API shows of brokers, triggers and bridges."""

from __future__ import annotations

import socket
from datetime import datetime
from pathlib import Path

import pytest
from gateway_testing import Subscriber

pytestmark = pytest.mark.usefixtures("processes")


@pytest.mark.spec("BR-01", "BR-02")
def test_a_ready_broker_shows_its_address(console) -> None:
    broker = console.get("brokers", "default")
    assert broker["metadata"] == {"name": "default", "id": "default", "generation": 1}
    assert broker["status"]["address"] == {"url": console.gateway.ingress()}
    assert broker["status"]["observedGeneration"] == 1
    condition = console.ready("brokers", "default")
    assert (condition["status"], condition["reason"]) == ("True", "IngressOpen")
    assert datetime.fromisoformat(condition["lastTransitionTime"]).tzinfo is not None


@pytest.mark.spec("BR-03", "BR-04", "BR-06")
def test_a_ready_trigger_shows_its_subscriber_and_has_the_default_broker(console, subscriber) -> None:
    trigger = console.get("triggers", "own")
    assert trigger["spec"] == {
        "broker": "default",
        "filter": {"type": "own"},
        "subscriber": {"http": {"url": subscriber.url}},
    }
    assert trigger["status"]["subscriberUri"] == subscriber.url
    assert console.ready("triggers", "own")["status"] == "True"
    origin = trigger["metadata"]["origin"]
    assert (Path(origin["file"]).name, origin["line"], origin["applied"]) == ("tidegate.yaml", 7, False)


def test_a_bridge_shows_both_ends(console, subscriber) -> None:
    status = console.get("bridges", "across")["status"]
    assert status["sinkUri"] == subscriber.url
    assert status["sourceUri"].startswith("http://127.0.0.1:")
    assert status["conditions"][0]["reason"] == "Carrying"


def test_lists_are_by_name_and_what_is_not_there_is_404(console) -> None:
    assert [b["metadata"]["name"] for b in console.http.get("/api/v1/brokers").json()["items"]] == ["default"]
    missing = console.http.get("/api/v1/triggers/nobody")
    assert (missing.status_code, missing.json()["detail"]) == (404, "there is no trigger `nobody`")


def test_counts_are_those_of_the_status(console) -> None:
    console.send("counted", "own")
    console.gateway.wait_until(
        lambda: console.get("triggers", "own")["status"]["counts"]["delivered"] == 1, 20, "the delivery"
    )
    assert console.get("brokers", "default")["status"]["counts"]["accepted"] >= 1


def test_secrets_are_not_shown(console) -> None:
    text = (
        "filter: {type: never}\n"
        'subscriber: {http: {url: "http://127.0.0.1:9/", headers: {x-key: "${secret:key}", x-plain: seen}}}\n'
        "dead_letter: http://user:literal@127.0.0.1:9/\n"
    )
    answer = console.put("secretive", text)
    assert answer.status_code == 201, answer.text
    spec = answer.json()["spec"]
    assert spec["subscriber"]["http"]["url"] == "http://127.0.0.1:9/"
    assert spec["subscriber"]["http"]["headers"]["x-key"] == "****"
    assert spec["dead_letter"] == {"http": {"url": "http://****@127.0.0.1:9/"}}
    for path in ("/api/v1/triggers", "/status"):
        shown = console.http.get(path).text
        assert "hush-hush" not in shown
    assert "hush-hush" not in (console.gateway.data_dir / "applied" / "secretive.yaml").read_text()
    assert console.delete("secretive").status_code == 204


@pytest.mark.spec("BR-03")
def test_the_time_of_a_condition_is_that_of_its_change(console) -> None:
    before = console.ready("triggers", "own")["lastTransitionTime"]
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        text = f"subscriber: http://127.0.0.1:{closed.getsockname()[1]}/\nfilter: {{type: fails}}\n"
        text += "delivery: {retry: 50, backoff_delay_s: 0.01, backoff_max_s: 0.02}\n"
        assert console.put("failing", text).status_code == 201
        first = console.ready("triggers", "failing")
        console.send("fails", "fails")
        console.gateway.wait_until(lambda: console.ready("triggers", "failing")["status"] == "False", 60, "a failure")
        failed = console.ready("triggers", "failing")
    assert failed["reason"] == "SubscriberFails"
    assert failed["lastTransitionTime"] > first["lastTransitionTime"]
    assert console.ready("triggers", "failing")["lastTransitionTime"] == failed["lastTransitionTime"]
    assert console.ready("triggers", "own")["lastTransitionTime"] == before
    assert console.delete("failing").status_code == 204


@pytest.mark.spec("BR-07")
def test_a_trigger_may_come_before_its_broker(start) -> None:
    with Subscriber() as s:
        console = start('brokers: {default: {ingress: [{http: {listen: "127.0.0.1:0"}}]}}\n')
        assert console.put("early", f"broker: late\nsubscriber: {s.url}\n").status_code == 201
        waiting = console.ready("triggers", "early")
        assert (waiting["status"], waiting["reason"]) == ("False", "BrokerNotFound")
        assert console.get("triggers", "early")["status"]["subscriberUri"] is None
        with console.gateway.config.open("a") as config:
            config.write('---\nbrokers: {late: {ingress: [{http: {listen: "127.0.0.1:0"}}]}}\n')
        assert console.post("reload").status_code == 200
        assert console.ready("triggers", "early")["status"] == "True"
        assert console.get("triggers", "early")["status"]["subscriberUri"] == s.url
        console.send("1", "t", "late")
        assert s.wait_for(1)[0].headers["ce-id"] == "1"


@pytest.mark.spec("BR-01")
def test_a_broker_that_could_not_start_is_not_ready_and_lags(start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        console = start(
            'brokers: {default: {ingress: [{http: {listen: "127.0.0.1:0"}}]}}\n', {"TIDEGATE_RELOAD": "signal"}
        )
        port = taken.getsockname()[1]
        with console.gateway.config.open("a") as config:
            config.write(f'---\nbrokers: {{second: {{ingress: [{{http: {{listen: "127.0.0.1:{port}"}}}}]}}}}\n')
        answer = console.post("reload")
        assert (answer.status_code, answer.json()["detail"]) == (422, "some parts could not be started")
        broker = console.get("brokers", "second")
        assert (broker["metadata"]["generation"], broker["status"]["observedGeneration"]) == (1, 0)
        condition = console.ready("brokers", "second")
        assert (condition["status"], condition["reason"]) == ("False", "StartFailed")
        assert "in use" in condition["message"]
        assert broker["status"]["address"] is None
    assert console.post("reload").status_code == 200
    assert console.ready("brokers", "second")["status"] == "True"
    assert console.get("brokers", "second")["status"]["observedGeneration"] == 1


def test_generation_counts_the_changes_of_one_entry(start) -> None:
    config = 'brokers: {default: {ingress: [{http: {listen: "127.0.0.1:0"}}]}}\n'
    config += "triggers:\n  a: {subscriber: http://127.0.0.1:9/}\n  b: {subscriber: http://127.0.0.1:9/}\n"
    console = start(config, {"TIDEGATE_RELOAD": "signal"})

    def versions(name: str) -> tuple[int, int]:
        trigger = console.get("triggers", name)
        return trigger["metadata"]["generation"], trigger["status"]["observedGeneration"]

    console.gateway.config.write_text(config.replace("a: {", "a: {filter: {type: x}, "))
    assert console.post("reload").status_code == 200
    assert (versions("a"), versions("b")) == ((2, 2), (1, 1))
    console.gateway.config.write_text(config.replace("b: {", "b: {broker: other, "))
    assert console.post("reload").status_code == 422
    assert (versions("a"), versions("b")) == ((3, 2), (2, 1))  # nothing was done
    assert console.get("triggers", "b")["spec"]["broker"] == "other"
    assert console.gateway.trigger("b")["broker"] == "default"
