"""`tidegate dlq` on a real dead-letter file."""

from __future__ import annotations

import json
import ssl
import threading
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest
import trustme
from gateway_cloudevents import event_json
from gateway_deadletter.cli.dlq import Where
from gateway_deadletter.dead_letters import Query
from gateway_testing import Subscriber

from gateway_core.config.registry import Registry
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import BuildContext, DeadLetterRef
from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import Outcome
from tests.access.certificates import CN, KIND, client_pem, server_files

CONFIG = """
brokers:
  default: {ingress: [{http: {listen: "127.0.0.1:0"}}]}
  other: {ingress: [{http: {listen: "127.0.0.1:0", path: /other}}]}
triggers:
  late: {subscriber: "http://127.0.0.1:1/"}
  own: {broker: other, subscriber: "http://127.0.0.1:1/", dead_letter: {deadletter: {path: own.jsonl}}}
  away: {subscriber: "http://127.0.0.1:1/", dead_letter: "http://127.0.0.1:1/dead"}
"""


def letter(id_: str, trigger: str = "late", reason: str = "503 Service Unavailable", **changes: Any) -> Event:
    attributes = {
        "specversion": "1.0",
        "id": id_,
        "source": "/s",
        "type": "t",
        "count": 7,
        "knativeerrordest": "http://127.0.0.1:1/",
        "knativeerrorcode": "503",
        "knativeerrordata": b64encode(b"busy").decode(),
        "tidegatetrigger": trigger,
        "tidegateattempts": 11,
        "tidegatefirst": "2026-01-01T00:00:00Z",
        "tidegatelast": "2026-01-01T00:01:00Z",
        "tidegatestage": "delivery",
        "tidegatereason": reason,
        **changes,
    }
    return Event(attributes, b'{"n": 1.0}', json_data=True)


def original(id_: str) -> dict[str, Any]:
    return {"specversion": "1.0", "id": id_, "source": "/s", "type": "t", "count": 7, "data": {"n": 1.0}}


@pytest.fixture
def bury(tmp_path: Path) -> Any:
    """Writes letters as the gateway does, into the default broker's dead letter or another file."""
    (tmp_path / "tidegate.yaml").write_text(CONFIG)
    registry = Registry.installed()

    async def write(options: dict[str, Any], letters: list[Event]) -> None:
        context = BuildContext("", tmp_path / "tidegate-data", SystemClock(), registry, broker="default")
        sink, outcomes = registry.build(DeadLetterRef("deadletter", options), context), list[Outcome]()
        async with anyio.create_task_group() as tasks:
            await sink.start(tasks)
            for event in letters:
                sink.send(event, 30, outcomes.append)
            await sink.stop()
        assert all(o.delivered for o in outcomes)

    return lambda *letters, **options: anyio.run(write, options, list(letters))


def listed(tidegate: Any, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(tidegate("dlq", "list", "--json", *arguments).out)
    return found


def events(rows: list[dict[str, Any]]) -> list[str]:
    return [row["event_id"] for row in rows]


@pytest.mark.slow
def test_nothing_there(tidegate, bury) -> None:
    assert tidegate("dlq", "list").out.startswith("no dead letters\n")
    assert listed(tidegate) == []


@pytest.mark.slow
def test_a_name_that_the_config_has_not_is_said(tidegate, bury) -> None:
    out = tidegate("dlq", "list", "--trigger", "lte", "--broker", "dfault").out
    assert "the config has no broker 'dfault'\nthe config has no trigger or bridge 'lte'\n" in out
    assert "the config has no" not in tidegate("dlq", "list", "--trigger", "late").out


@pytest.mark.slow
def test_list_shows_what_and_why(tidegate, bury, tmp_path: Path) -> None:
    bury(letter("1"))
    (row,) = listed(tidegate)
    row.pop("id")
    assert row == {
        "store": (tmp_path / "tidegate-data/dead-letter/default.jsonl").as_uri(),
        "broker": "default",
        "trigger": "late",
        "type": "t",
        "source": "/s",
        "event_id": "1",
        "attempts": 11,
        "code": "503",
        "stage": "delivery",
        "reason": "503 Service Unavailable",
        "first": "2026-01-01T00:00:00Z",
        "last": "2026-01-01T00:01:00Z",
        "redelivered": None,
    }
    text = tidegate("dlq", "list").out
    assert "503 Service Unavailable" in text
    assert "not readable from here: triggers.away.dead_letter: http://127.0.0.1:1/dead" in text


@pytest.mark.slow
def test_list_filters(tidegate, bury, tmp_path: Path) -> None:
    bury(letter("1"), letter("2", trigger="gone"), letter("3", reason="connection refused"))
    bury(letter("4", trigger="own"), path=tmp_path / "own.jsonl")
    assert events(listed(tidegate)) == ["1", "2", "3", "4"]
    assert events(listed(tidegate, "--trigger", "gone")) == ["2"]
    assert events(listed(tidegate, "--reason", "REFUSED")) == ["3"]
    assert events(listed(tidegate, "--broker", "other")) == ["4"]


@pytest.mark.slow
@pytest.mark.spec("SAFE-242")
def test_list_is_oldest_first_over_all_files(tidegate, bury, tmp_path: Path) -> None:
    at = {n: f"2026-01-01T00:0{n}:00{'.5' * (n % 2)}Z" for n in range(6)}
    bury(letter("1", tidegatelast=at[1]), letter("4", tidegatelast=at[4]))
    bury(*(letter(str(n), trigger="own", tidegatelast=at[n]) for n in (0, 3, 5)), path=tmp_path / "own.jsonl")
    default = tmp_path / "tidegate-data" / "dead-letter" / "default.jsonl"
    default.rename(default.with_name("default~1.jsonl"))
    bury(letter("2", tidegatelast=at[2]))  # by another worker
    assert events(listed(tidegate)) == ["0", "1", "2", "3", "4", "5"]
    text = tidegate("dlq", "list").out
    assert [line.split()[-1] for line in text.splitlines() if "2026-" in line] == [at[n] for n in range(6)]


@pytest.mark.slow
def test_show_has_the_event_as_it_was(tidegate, bury) -> None:
    bury(letter("1"))
    (row,) = listed(tidegate)
    shown = json.loads(tidegate("dlq", "show", row["id"], "--json").out)
    assert (shown["event"], shown["event_id"], shown["answer"]) == (original("1"), "1", "busy")
    assert '"n": 1.0' in tidegate("dlq", "show", row["id"]).out
    missing = tidegate("dlq", "show", "nope")
    assert (missing.code, missing.err) == (1, "tidegate: there is no dead letter with the id nope\n")


@pytest.mark.slow
def test_the_id_of_an_event_is_told_from_that_of_its_dead_letter(tidegate, bury) -> None:
    bury(letter("1"), letter("2"))
    one = listed(tidegate)[0]["id"]
    shown = tidegate("dlq", "show", "1")
    end = f"; 1 is the id of an event: say {one}\n"
    assert (shown.code, shown.err) == (1, f"tidegate: there is no dead letter with the id 1{end}")
    ran = tidegate("dlq", "replay", "1", "nope", "--to", "http://127.0.0.1:1/")
    assert (ran.code, ran.err) == (1, f"tidegate: no dead letter has the id 1, nope{end}")


@pytest.mark.slow
@pytest.mark.spec("DP-18")
def test_replay_sends_the_original_and_takes_out_what_was_accepted(tidegate, bury) -> None:
    bury(letter("1"), letter("2"), letter("3"))
    with Subscriber([202, 400, 204]) as s:
        ran = tidegate("dlq", "replay", "--all", "--to", s.url)
        sent = [json.loads(r.body) for r in s.requests]
        assert s.requests[0].headers["content-type"].startswith("application/cloudevents+json")
    assert sent == [original("1"), original("2"), original("3")]
    assert (ran.code, ran.out) == (1, "2 replayed, 1 left\n")
    assert events(listed(tidegate)) == ["2"]


@pytest.mark.slow
def test_replay_of_one(tidegate, bury) -> None:
    bury(letter("1"), letter("2"))
    with Subscriber() as s:
        ran = tidegate("dlq", "replay", listed(tidegate)[1]["id"], "--to", s.url, "--json")
    assert json.loads(ran.out) == {"replayed": 1, "refused": 0, "skipped": 0, "left": 0, "dry_run": False}
    assert (ran.code, events(listed(tidegate))) == (0, ["1"])


@pytest.mark.slow
def test_a_dry_run_sends_and_removes_nothing(tidegate, bury) -> None:
    bury(letter("1"), letter("2", trigger="gone"))
    with Subscriber() as s:
        ran = tidegate("dlq", "replay", "--all", "--trigger", "gone", "--to", s.url, "--dry-run")
        assert s.requests == []
    sent, count = ran.out.splitlines()
    assert (sent.endswith(f"t 2 -> {s.url}"), count) == (True, "1 would be sent")
    assert (ran.code, ran.err, len(listed(tidegate))) == (0, "", 2)


@pytest.mark.slow
def test_each_letter_goes_back_to_the_broker_of_its_trigger(tidegate, bury, tmp_path: Path) -> None:
    bury(letter("1"), letter("2", trigger="own"))
    bury(letter("3", trigger="own"), path=tmp_path / "own.jsonl")
    with Subscriber() as a, Subscriber() as b:
        found = {"pid": 1, "admin": None, "ingress": {"default": [a.url], "other": [b.url]}}
        (tmp_path / "tidegate-data/gateway.json").write_text(json.dumps(found))
        assert tidegate("dlq", "replay", "--all", "--all-triggers", "--yes").code == 0
        assert [json.loads(r.body)["id"] for r in a.requests] == ["1"]
        assert [json.loads(r.body)["id"] for r in b.requests] == ["2", "3"]


@pytest.mark.slow
def test_replay_proves_who_it_is(tidegate, bury) -> None:
    bury(letter("1"))
    with Subscriber() as s:
        tidegate("dlq", "replay", "--all", "--to", s.url, "--header", "x-api-key=k")
        assert [r.headers["x-api-key"] for r in s.requests] == ["k"]
    assert tidegate("dlq", "replay", "--all", "--to", s.url, "--header", "k").code == 2


@pytest.mark.slow
def test_replay_without_a_running_gateway_says_so(tidegate, bury) -> None:
    bury(letter("1"))
    ran = tidegate("dlq", "replay", "--all")
    assert (ran.code, "the gateway isn't running" in ran.err, len(listed(tidegate))) == (1, True, 1)


@pytest.mark.slow
def test_what_never_was_an_event_stays(tidegate, bury) -> None:
    bury(letter("1", tidegatestage="decode"))
    with Subscriber() as s:
        ran = tidegate("dlq", "replay", "--all", "--to", s.url)
        assert s.requests == []
    assert (ran.code, ran.out, len(listed(tidegate))) == (1, "0 replayed, 1 left\n", 1)


@pytest.mark.slow
def test_nobody_there_ends_the_replay(tidegate, bury) -> None:
    bury(*(letter(str(n)) for n in range(3)))
    with Subscriber() as s:
        url = s.url
    ran = tidegate("dlq", "replay", "--all", "--to", url, "--retry", "0")
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (1, "0 replayed, 3 left\n", 1)


@pytest.mark.slow
def test_stores_are_each_read_once(tidegate, bury, tmp_path: Path) -> None:
    bury(letter("1"))
    stores = Where([tmp_path / "tidegate.yaml"], tmp_path / "tidegate-data").stores()
    assert [s.owner for s in stores.stores] == [
        "brokers.default.dead_letter",
        "brokers.other.dead_letter",
        "triggers.own.dead_letter",
    ]
    assert len(list(stores.dead_letters(Query()))) == 1


@pytest.mark.slow
@pytest.mark.spec("SAFE-09")
def test_letters_of_a_trigger_that_was_applied_are_seen(tidegate, bury, tmp_path: Path) -> None:
    bury(letter("1", trigger="applied"), path="applied.jsonl")
    assert listed(tidegate) == []
    (tmp_path / "tidegate-data/applied").mkdir(parents=True)
    (tmp_path / "tidegate-data/applied/applied.yaml").write_text(
        'triggers:\n  applied: {subscriber: "http://127.0.0.1:1/", dead_letter: {deadletter: {path: applied.jsonl}}}\n'
    )
    (row,) = listed(tidegate, "--trigger", "applied")
    assert (row["event_id"], row["broker"]) == ("1", "default")
    assert json.loads(tidegate("dlq", "show", row["id"], "--json").out)["event_id"] == "1"


@pytest.mark.slow
def test_replay_to_an_ingress_that_asks_for_a_certificate(tidegate, bury, tmp_path: Path) -> None:
    bury(letter("1"))
    ca = trustme.CA(key_type=KIND)
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    (tmp_path / "client.pem").write_bytes(client_pem(ca, (CN, "operator")))
    files = server_files(ca, tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files["cert_file"], files["key_file"])
    ca.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    senders: list[Any] = []

    class Closed(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            senders.append(self.request.getpeercert()["subject"])
            self.send_response(202)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None: ...

        def finish_request(self, request: Any, client_address: Any) -> None:
            with context.wrap_socket(request, server_side=True) as secured:
                super().finish_request(secured, client_address)

    with Server(("127.0.0.1", 0), Closed) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        replay = ("dlq", "replay", "--all", "--retry", "0", "--to", f"https://127.0.0.1:{server.server_address[1]}/")
        stranger = tidegate(*replay)
        known = tidegate(*replay, "--ca-file", "ca.pem", "--cert-file", "client.pem")
        server.shutdown()
        thread.join()
    assert (stranger.code, "the server's certificate is not valid" in stranger.err) == (1, True)
    assert (known.code, known.out, senders) == (0, "1 replayed, 0 left\n", [((("commonName", "operator"),),)])


@pytest.mark.spec("SAFE-90")
def test_letters_of_a_file_sink_are_listed_shown_and_removed(tidegate, bury, tmp_path: Path) -> None:
    """What the config calls `file:` is read like our own, and lines that are no dead letters stay."""
    old = tmp_path / "old.jsonl"
    (tmp_path / "tidegate.yaml").write_text(
        "brokers: {default: {ingress: [http: {listen: '127.0.0.1:0'}], dead_letter: {file: {path: old.jsonl}}}}\n"
        "triggers: {late: {subscriber: 'http://127.0.0.1:1/'}}\n"
    )
    other = b'{"specversion":"1.0","id":"9","source":"/s","type":"t"}'
    old.write_bytes(b"\n".join([file_line(letter("1")), other, b"no json", file_line(letter("2"))]) + b"\n")
    rows = listed(tidegate)
    assert events(rows) == ["1", "2"]
    assert json.loads(tidegate("dlq", "show", rows[0]["id"], "--json").out)["event"] == original("1")
    with Subscriber() as s:
        ran = tidegate("dlq", "replay", rows[0]["id"], "--to", s.url)
    assert (ran.code, ran.out) == (0, "1 replayed, 0 left\n")
    assert old.read_bytes().splitlines() == [other, b"no json", file_line(letter("2"))]


def file_line(event: Event) -> bytes:
    return event_json.dump(event)


@pytest.mark.slow
@pytest.mark.spec("SAFE-121")
def test_letters_of_a_file_sink_are_imported_once(tidegate, bury, tmp_path: Path) -> None:
    bury(letter("0"))
    old = tmp_path / "old.jsonl"
    old.write_bytes(b"\n".join([file_line(letter("1")), b"no json", file_line(letter("2", trigger="own"))]) + b"\n")
    before = old.read_bytes()
    ran = tidegate("dlq", "import", str(old))
    assert (ran.code, ran.out) == (1, "2 imported, 1 lines are no dead letters\n")
    assert events(listed(tidegate, "--broker", "default")) == ["0", "1"]
    assert events(listed(tidegate, "--broker", "other")) == ["2"]
    again = tidegate("dlq", "import", "--json", str(old))
    assert json.loads(again.out) == {"imported": 0, "known": 2, "strange": 1}
    assert old.read_bytes() == before
    with Subscriber() as s:
        assert tidegate("dlq", "replay", "--all", "--to", s.url).out == "3 replayed, 0 left\n"
    gone = tidegate("dlq", "import", "--json", str(old))
    assert json.loads(gone.out) == {"imported": 0, "known": 2, "strange": 1}
    assert listed(tidegate) == []
    wanted = tidegate("dlq", "import", "--again", "--broker", "other", "--json", str(old))
    assert json.loads(wanted.out) == {"imported": 2, "known": 0, "strange": 1}
    assert tidegate("dlq", "import", "--again", "--broker", "other", "--json", str(old)).out.count('"known": 2')
    shown = tidegate("dlq", "import", str(tmp_path / "none.jsonl"))
    assert (shown.code, "can't be read: No such file" in shown.err) == (1, True)
