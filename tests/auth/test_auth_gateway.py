"""Keys at a gateway that runs: rotation under load, and where keys must not appear."""

from __future__ import annotations

import http.client
import json
import threading
from base64 import b64encode
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from gateway_auth.keys import add_key, remove_keys
from gateway_auth.passwords import hash_of, set_password
from gateway_testing import GatewayProcess

from tests import web

pytestmark = pytest.mark.usefixtures("processes")

CONFIG = """
brokers:
  default:
    ingress:
      - http:
          listen: "127.0.0.1:0"
          authenticate:
            - api_key: {file: keys.json, query: key}
            - basic: {file: users.json}
triggers:
  all: {subscriber: {file: {path: events.jsonl, fsync: false}}}
"""
EVENT = '{"specversion":"1.0","id":"%s","source":"/s","type":"t"}'
KIND = {"content-type": "application/cloudevents+json"}
SENDERS = 3


class Senders:
    """Threads that send events with the key that they were given last."""

    def __init__(self, url: str, key: str) -> None:
        self.key = key
        self.accepted: set[str] = set()
        self.answers: Counter[int | str] = Counter()
        self.uses = [""] * SENDERS  # the key of each sender's last answered request
        self._url = urlsplit(url)
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(n,)) for n in range(SENDERS)]

    def __enter__(self) -> Senders:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)

    def _send(self, number: int) -> None:
        connection = http.client.HTTPConnection(str(self._url.hostname), self._url.port, timeout=60)
        count = 0
        try:
            while not self._over.wait(0.003):
                key, id_ = self.key, f"{number}-{count}"
                connection.request("POST", "/", EVENT % id_, {**KIND, "x-api-key": key})
                answer = connection.getresponse()
                answer.read()
                self.answers[answer.status] += 1
                if answer.status == 202:
                    self.accepted.add(id_)
                self.uses[number] = key
                count += 1
        except Exception as e:
            self.answers[repr(e)] += 1
        finally:
            connection.close()


def status(url: str, key: str) -> int:
    return web.post(url, content=EVENT % "probe", headers={**KIND, "x-api-key": key}, verify=False).status_code


@pytest.fixture
def gateway(tmp_path: Path) -> GatewayProcess:
    set_password(tmp_path / "users.json", "ann", hash_of(b"pass-word", 10))
    add_key(tmp_path / "keys.json", "first")
    return GatewayProcess(CONFIG, tmp_path)


@pytest.mark.spec("AU-09")
def test_keys_rotate_under_load_and_no_valid_one_is_refused(gateway: GatewayProcess, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    entry, old = add_key(file, "billing")
    with gateway, Senders(url := gateway.ingress(), old) as senders:
        for number in range(3):
            later, new = add_key(file, "billing")
            gateway.wait_until(lambda: status(url, new) == 202, 60, "the new key")  # noqa: B023
            assert status(url, old) == 202
            senders.key = new
            gateway.wait_until(lambda: set(senders.uses) == {new}, 60, "all senders to use it")  # noqa: B023
            if number == 1:  # an accident meanwhile
                whole = file.read_bytes()
                file.write_bytes(whole[:-10])
                gateway.wait_until(lambda: "stay in use" in gateway.log(), 60, "the gateway to notice")
                file.write_bytes(whole)
            remove_keys(file, [entry.id])
            gateway.wait_until(lambda: status(url, old) == 401, 60, "the old key to be refused")  # noqa: B023
            entry, old = later, new
        sent = senders.answers.total()
        gateway.wait_until(lambda: senders.answers.total() > sent + 10, 60, "more events")
        senders.__exit__()
        assert senders.answers.keys() == {202}
        gateway.wait_until(gateway.drained, 60, "the events to be delivered")
        kept = [json.loads(line)["id"] for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert len(senders.accepted) > 100
    assert senders.accepted <= set(kept)


@pytest.mark.spec("AU-10")
def test_no_credential_is_shown_anywhere(gateway: GatewayProcess, tmp_path: Path) -> None:
    _, key = add_key(tmp_path / "keys.json", "billing")
    wrong = "tgk_0123456789ab_" + "w" * 43
    basic = {"authorization": "Basic " + b64encode(b"ann:pass-word").decode()}
    guessed = {"authorization": "Basic " + b64encode(b"ann:gu-essed").decode()}
    with gateway:
        url = gateway.ingress()
        seen: list[str] = []
        bad = '{"specversion":"1.0","id":"1","source":"/s"}'
        with web.client(verify=False) as client:
            for body in (EVENT % "1", bad):
                for credentials in (key, wrong):
                    for target, headers in (
                        (f"{url}?key={credentials}", {}),
                        (f"{url}nowhere?key={credentials}", {}),
                        (f"{url}?key={credentials}", {"x-api-key": credentials}),
                        (url, {"x-api-key": credentials}),
                    ):
                        seen.append(client.post(target, content=body, headers={**KIND, **headers}).text)
                        seen.append(client.get(target, headers=headers).text)
                seen += [client.post(url, content=body, headers={**KIND, **own}).text for own in (basic, guessed)]
        seen += [gateway.admin(path).text for path in ("/status", "/metrics", "/api/v1/config")]
        gateway.stop()
    files = [f for f in tmp_path.rglob("*") if f.is_file()]
    seen += [f.read_bytes().decode(errors="replace") for f in files]
    secrets = [key[17:], wrong[17:], "pass-word", "gu-essed", *(h["authorization"][6:] for h in (basic, guessed))]
    assert [(secret, text[:200]) for text in seen for secret in secrets if secret in text] == []
    assert "1" in [json.loads(line)["id"] for line in (tmp_path / "events.jsonl").read_text().splitlines()]
