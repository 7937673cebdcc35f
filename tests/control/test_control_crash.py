"""kill -9 in the middle of a change: the next start finds the state before it, or after it, never between."""

from __future__ import annotations

import random
import threading
import time

import httpx
import pytest
from gateway_testing import Subscriber

pytestmark = pytest.mark.usefixtures("processes")

CONFIG = 'brokers: {default: {ingress: [{http: {listen: "127.0.0.1:0"}}]}}\n'


def test_a_change_that_was_written_is_there_after_a_crash_before_it_was_made(start) -> None:
    go = threading.Event()
    with Subscriber(decide=lambda r: 202 if r.path == "/new" or go.wait(60) else 500) as s:
        console = start(CONFIG)
        assert console.put("x", f"subscriber: {s.url}old\n").status_code == 201
        console.send("1", "t")
        s.wait_for(1)
        # the old trigger has an attempt under way: the change is written, and waits for it
        changing = threading.Thread(target=lambda: quietly(console, f"subscriber: {s.url}new\n"))
        changing.start()
        file = console.gateway.data_dir / "applied" / "x.yaml"
        console.gateway.wait_until(lambda: "new" in file.read_text(), 60, "the change to be written")
        console.gateway.kill()
        changing.join(30)
        console.gateway.start()
        again = type(console)(console.gateway)
        assert again.get("triggers", "x")["status"]["subscriberUri"] == f"{s.url}new"
        console.gateway.wait_until(lambda: any(r.path == "/new" for r in s.requests), 60, "the event")
        assert [r.headers["ce-id"] for r in s.requests] == ["1", "1"]
        again.http.close()
        go.set()


def test_an_event_that_came_after_the_answer_is_not_missed_by_the_new_trigger(start) -> None:
    with Subscriber(default=503) as s:
        console = start(CONFIG)
        assert console.put("x", f"subscriber: {s.url}\n").status_code == 201
        console.send("1", "t")
        console.gateway.kill()
        with Subscriber(port=0) as later:
            file = console.gateway.data_dir / "applied" / "x.yaml"
            file.write_text(file.read_text().replace(s.url, later.url))
            console.gateway.start()
            assert later.wait_for(1, 30)[0].headers["ce-id"] == "1"


def quietly(console, text: str) -> None:
    try:
        console.put("x", text)
    except httpx.HTTPError:
        return


def test_half_a_file_is_not_there(start) -> None:
    console = start(CONFIG)
    assert console.put("x", "subscriber: http://127.0.0.1:9/a\n").status_code == 201
    folder = console.gateway.data_dir / "applied"
    console.gateway.kill()
    (folder / ".x.yaml.tmp").write_bytes(b"triggers: {x: {subscr")  # what a crash during the writing leaves
    console.gateway.start()
    again = type(console)(console.gateway)
    assert again.get("triggers", "x")["status"]["subscriberUri"] == "http://127.0.0.1:9/a"
    assert again.put("x", "subscriber: http://127.0.0.1:9/b\n").status_code == 200
    assert sorted(f.name for f in folder.iterdir()) == ["x.yaml"]
    again.http.close()


def test_kills_at_any_time_lose_no_change_that_was_answered(start) -> None:
    console = start(CONFIG)
    answered: dict[str, int] = {}
    asked: dict[str, int] = {}
    number = 0
    for round_ in range(3):
        current = type(console)(console.gateway)
        killer = threading.Timer(random.Random(round_).uniform(0.02, 0.3), console.gateway.kill)
        killer.start()
        end = time.monotonic() + 20
        while time.monotonic() < end:
            number += 1
            name = f"t{number % 5}"
            asked[name] = number
            try:
                answer = current.put(name, f"subscriber: http://127.0.0.1:9/{number}\n")
            except httpx.HTTPError:
                break
            assert answer.status_code in (200, 201)
            answered[name] = number
        killer.join()
        current.http.close()
        console.gateway.start()
        after = type(console)(console.gateway)
        for name in asked:
            found = after.http.get(f"/api/v1/triggers/{name}")
            if found.status_code == 404:
                assert name not in answered
                continue
            have = int(found.json()["status"]["subscriberUri"].rpartition("/")[2])
            assert have in (answered.get(name), asked[name])
            answered[name] = have
        after.http.close()
    assert answered
