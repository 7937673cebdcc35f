"""Triggers that are created, changed, paused and deleted while the gateway runs."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from gateway_testing import Subscriber

from tests.ledger import free_port

pytestmark = pytest.mark.usefixtures("processes")


MANIFEST = """
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: NAME, namespace: NAMESPACE}
spec:
  broker: default
  filter: {attributes: {type: manifest}}
  subscriber: {uri: URL}
"""


def kept(console, name: str) -> Path:
    return console.gateway.data_dir / "applied" / f"{name}.yaml"


def problem(response, status: int) -> dict:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    document = response.json()
    assert document["status"] == status
    return document


def test_a_trigger_is_created_changed_and_deleted(console, subscriber) -> None:
    seen = len(subscriber.requests)
    created = console.put("life", f"subscriber: {subscriber.url}one\nfilter: {{type: life}}\n")
    assert (created.status_code, created.json()["metadata"]["generation"]) == (201, 1)
    console.send("life-1", "life")
    assert subscriber.wait_for(seen + 1)[-1].path == "/one"
    changed = console.put("life", f"subscriber: {subscriber.url}two\nfilter: {{type: life}}\n")
    assert (changed.status_code, changed.json()["metadata"]["generation"]) == (200, 2)
    assert changed.json()["status"]["observedGeneration"] == 2
    same = console.put("life", f"filter: {{type: life}}\nsubscriber: {subscriber.url}two\n")
    assert (same.status_code, same.json()["metadata"]["generation"]) == (200, 2)
    console.send("life-2", "life")
    assert subscriber.wait_for(seen + 2)[-1].path == "/two"
    assert kept(console, "life").exists()
    assert console.delete("life").status_code == 204
    assert not kept(console, "life").exists()
    problem(console.delete("life"), 404)


def test_what_is_kept_is_read_back_as_the_same(console, subscriber) -> None:
    text = (
        f'subscriber: {{http: {{url: "{subscriber.url}"}}}}\n'
        'filters: [{any: [{exact: {type: "1_0"}}, {exact: {subject: "a: #"}}, {prefix: {source: "é\\t\\u2028😀"}}]}]\n'
        "delivery:\n  retry: 0x10\n  backoff_delay_s: 1e-1\n  rate_per_s: ${RATE:-2.5}\n"
    )
    assert console.put("odd", text).status_code == 201
    assert "rate_per_s: ${RATE:-2.5}\n" in kept(console, "odd").read_text()
    spec = console.get("triggers", "odd")["spec"]
    assert spec["delivery"] == {"retry": 16, "backoff_delay_s": 0.1, "rate_per_s": 2.5}
    assert console.post("reload").status_code == 200
    after = console.get("triggers", "odd")
    assert (after["spec"], after["metadata"]["generation"]) == (spec, 1)
    as_json = json.dumps({"subscriber": subscriber.url, "filter": {"subject": "😀"}})  # as surrogates
    media = {"content-type": "application/json"}
    answer = console.http.put("/api/v1/triggers/odd", content=as_json, headers=media)
    assert (answer.status_code, answer.json()["spec"]["filter"]) == (200, {"subject": "😀"})
    assert console.delete("odd").status_code == 204


def test_several_are_applied_together_manifests_too(console, subscriber) -> None:
    manifest = MANIFEST.replace("NAMESPACE", "default").replace("URL", subscriber.url)
    text = manifest.replace("NAME", "knative") + f"---\ntriggers:\n  ours: {{subscriber: {subscriber.url}}}\n"
    answer = console.apply(text)
    assert answer.json()["triggers"] == [
        {"name": "knative", "result": "created"},
        {"name": "ours", "result": "created"},
    ]
    trigger = console.get("triggers", "knative")
    assert trigger["metadata"]["namespace"] == "default"
    assert trigger["spec"]["filter"] == {"type": "manifest"}
    assert kept(console, "knative").read_text().startswith('---\napiVersion: "eventing.knative.dev/v1"\n')
    again = console.apply(text.replace("manifest}", "other}"))
    assert [t["result"] for t in again.json()["triggers"]] == ["changed", "unchanged"]
    assert console.delete("knative").status_code == console.delete("ours").status_code == 204


def test_all_or_none(console, subscriber) -> None:
    text = f"triggers:\n  good: {{subscriber: {subscriber.url}}}\n  bad:\n    subscriber: nowhere\n    extra: 1\n"
    document = problem(console.apply(text), 422)
    assert [(f["line"], f["path"], f["file"]) for f in document["faults"]] == [
        (4, "triggers.bad.subscriber", None),
        (5, "triggers.bad.extra", None),
    ]
    problem(console.http.get("/api/v1/triggers/good"), 404)
    assert not kept(console, "good").exists()


def test_what_cannot_be_started_is_taken_back(console, subscriber) -> None:
    file = "subscriber: {file: {path: /proc/nowhere/x}}\nfilter: {type: back}\n"
    document = problem(console.put("back", file), 422)
    assert "can't write file:///proc/nowhere/x" in document["faults"][0]["message"]
    assert not kept(console, "back").exists()
    problem(console.http.get("/api/v1/triggers/back"), 404)
    good = f"subscriber: {subscriber.url}\nfilter: {{type: back}}\n"
    assert console.put("back", good).status_code == 201
    before = kept(console, "back").read_bytes()
    problem(console.put("back", file), 422)
    assert kept(console, "back").read_bytes() == before
    seen = len(subscriber.requests)
    console.send("back", "back")
    subscriber.wait_for(seen + 1)
    assert console.ready("triggers", "back")["status"] == "True"
    assert console.gateway.status()["config"]["error"] is None
    assert console.delete("back").status_code == 204


def test_what_the_files_define_is_changed_there(console, subscriber) -> None:
    for answer in (console.put("own", f"subscriber: {subscriber.url}\n"), console.delete("own")):
        document = problem(answer, 409)
        assert document["detail"] == f"`own` is defined in {console.gateway.config}:7: change it there"
        assert (document["faults"][0]["file"], document["faults"][0]["line"]) == (str(console.gateway.config), 7)


@pytest.mark.spec("BR-05")
def test_the_broker_of_a_trigger_cannot_be_changed(console, subscriber) -> None:
    assert console.put("fixed", f"subscriber: {subscriber.url}\nfilter: {{type: fixed}}\n").status_code == 201
    document = problem(console.put("fixed", f"subscriber: {subscriber.url}\nbroker: other\n"), 409)
    assert "the broker of a trigger can't be changed: `fixed` belongs to `default`" in document["detail"]
    assert console.get("triggers", "fixed")["spec"]["broker"] == "default"
    assert console.delete("fixed").status_code == 204


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("brokers: {b: {}}\n", "only triggers can be applied"),
        ("include: [other.yaml]\ntriggers: {}\n", "only triggers can be applied"),
        (MANIFEST.replace("Trigger", "Broker"), "only triggers can be applied"),
        ("triggers: []\n", "expected a mapping"),
        ("triggers: {a: {subscriber: http://127.0.0.1:9/}, a: {}}\n", "twice"),
        ("triggers: {../../x: {subscriber: http://127.0.0.1:9/}}\n", "can't be a name"),
        ("triggers: {x.scenario: {subscriber: http://127.0.0.1:9/}}\n", "*.scenario.yaml"),
        ("a: [\n", "not YAML"),
        ("", "empty"),
        ("triggers: {}\n", "no trigger"),
    ],
)
def test_what_is_no_trigger_is_a_fault(console, text: str, said: str) -> None:
    answer = console.apply(text)
    problem(answer, 422)
    assert said in answer.text
    assert not list(console.gateway.folder.glob("**/x.yaml"))


def test_a_manifest_is_put_under_its_own_name_only(console) -> None:
    manifest = MANIFEST.replace("NAMESPACE", "default").replace("NAME", "one").replace("URL", "http://127.0.0.1:9/")
    assert "not `two` alone" in problem(console.put("two", manifest), 422)["detail"]


def test_a_change_may_depend_on_what_is_there(console, subscriber) -> None:
    text = f"subscriber: {subscriber.url}\nfilter: {{type: etag}}\n"
    tag = console.put("tagged", text, **{"if-none-match": "*"}).headers["etag"]
    assert console.http.get("/api/v1/triggers/tagged").headers["etag"] == tag
    problem(console.put("tagged", text, **{"if-none-match": "*"}), 412)
    changed = console.put("tagged", text.replace("etag", "other"), **{"if-match": tag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != tag
    problem(console.put("tagged", text, **{"if-match": tag}), 412)
    problem(console.http.delete("/api/v1/triggers/tagged", headers={"if-match": tag}), 412)
    assert console.http.delete("/api/v1/triggers/tagged", headers={"if-match": "*"}).status_code == 204
    problem(console.put("tagged", text, **{"if-match": "*"}), 412)


def test_a_paused_trigger_keeps_its_events_through_change_and_restart(start) -> None:
    with Subscriber() as s:
        console = start('brokers: {default: {ingress: [{http: {listen: "127.0.0.1:0"}}]}}\n')
        assert console.put("slow", f"subscriber: {s.url}\n").status_code == 201
        paused = console.post("triggers/slow/pause").json()["status"]
        assert (paused["paused"], paused["conditions"][0]["reason"]) == (True, "Paused")
        for number in range(20):
            console.send(str(number), "t")
        assert console.put("slow", f"subscriber: {s.url}\nfilter: {{type: t}}\n").status_code == 200
        assert console.ready("triggers", "slow")["reason"] == "Paused"
        assert console.post("reload").status_code == 200
        assert console.gateway.stop() == 0
        console.gateway.start()
        console.http.base_url = type(console)(console.gateway).url
        assert console.ready("triggers", "slow")["reason"] == "Paused"
        trigger = console.gateway.trigger("slow")
        assert (trigger["lag"], trigger["waiting"]) == (20, 0)  # the channel keeps them, not the memory
        assert not s.requests
        assert console.post("triggers/slow/resume").status_code == 200
        assert {r.headers["ce-id"] for r in s.wait_for(20)} == {str(n) for n in range(20)}
        assert console.ready("triggers", "slow")["status"] == "True"


def test_a_pause_lets_attempts_under_way_finish(start) -> None:
    go = threading.Event()
    with Subscriber(decide=lambda r: 202 if go.wait(30) else 500) as s:
        console = start('brokers: {default: {ingress: [{http: {listen: "127.0.0.1:0"}}]}}\n')
        assert console.put("held", f"subscriber: {s.url}\ndelivery: {{max_in_flight: 1}}\n").status_code == 201
        console.send("1", "t")
        s.wait_for(1)
        console.send("2", "t")
        assert console.post("triggers/held/pause").status_code == 200
        go.set()
        console.gateway.wait_until(lambda: console.gateway.trigger("held")["delivered"] == 1, 60, "the first")
        trigger = console.gateway.trigger("held")
        assert (trigger["lag"], trigger["in_flight"], trigger["paused"], len(s.requests)) == (1, 0, True, 1)
        assert console.post("triggers/held/resume").status_code == 200
        assert s.wait_for(2)[1].headers["ce-id"] == "2"


def test_a_deleted_trigger_comes_back_unpaused(console, subscriber) -> None:
    text = f"subscriber: {subscriber.url}\nfilter: {{type: again}}\n"
    assert console.put("again", text).status_code == 201
    assert console.post("triggers/again/pause").status_code == 200
    assert console.delete("again").status_code == 204
    assert json.loads((console.gateway.data_dir / "applied" / "paused.json").read_text()) == []
    assert console.put("again", text).json()["status"]["paused"] is False
    assert console.delete("again").status_code == 204
    problem(console.post("triggers/again/pause"), 404)


def test_faults_of_the_files_are_told_and_keep_changes_away(start) -> None:
    config = 'brokers: {default: {ingress: [{http: {listen: "127.0.0.1:0"}}]}}\n'
    console = start(config, {"TIDEGATE_RELOAD": "signal"})
    assert console.put("there", "subscriber: http://127.0.0.1:9/\n").status_code == 201
    console.gateway.config.write_text(config + "brokrs: {}\n")
    document = problem(console.post("reload"), 422)
    assert (document["faults"][0]["file"], document["faults"][0]["line"]) == (str(console.gateway.config), 2)
    for answer in (console.put("x", "subscriber: http://127.0.0.1:9/\n"), console.delete("there")):
        assert "the config's own files have errors" in problem(answer, 409)["detail"]
    assert console.post("triggers/there/pause").status_code == 200
    console.gateway.config.write_text(config)
    assert console.post("reload").status_code == 200
    assert console.delete("there").status_code == 204


def test_a_gateway_that_never_reloads_takes_no_changes(start) -> None:
    console = start('brokers: {default: {ingress: [{http: {listen: "127.0.0.1:0"}}]}}\n', {"TIDEGATE_RELOAD": "off"})
    for answer in (console.put("x", "subscriber: http://127.0.0.1:9/\n"), console.post("reload")):
        assert "can't be changed" in problem(answer, 409)["detail"]


def test_all_workers_follow(start) -> None:
    with Subscriber() as s:
        console = start(
            f'brokers: {{default: {{ingress: [{{http: {{listen: "127.0.0.1:{free_port()}"}}}}]}}}}\n',
            None,
            "--workers",
            "2",
        )
        processes = lambda: console.gateway.status()["processes"]  # noqa: E731
        console.gateway.wait_until(lambda: len(processes()) == 2, 60, "the second worker")
        assert console.put("wide", f"subscriber: {s.url}\n").status_code == 201
        for number in range(40):  # each on a connection of its own: the workers share them
            console.send(str(number), "t")
        assert {r.headers["ce-id"] for r in s.wait_for(40, 30)} == {str(n) for n in range(40)}
        assert console.post("triggers/wide/pause").status_code == 200
        for number in range(40, 80):
            console.send(str(number), "t")
        console.gateway.wait_until(lambda: console.gateway.trigger("wide")["lag"] == 40, 60, "the events to be kept")
        assert len(s.requests) == 40
        assert console.post("triggers/wide/resume").status_code == 200
        s.wait_for(80, 30)
