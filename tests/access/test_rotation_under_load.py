"""Secrets and certificates are replaced while senders send: no valid request is refused, and nothing accepted lost."""

from __future__ import annotations

import hashlib
import hmac
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import trustme
from gateway_testing import GatewayProcess

from tests import web
from tests.access.certificates import CN, KIND, client_pem, server_files, trusting

pytestmark = pytest.mark.usefixtures("processes")

NAMES = ("secrets", "files", "certificates")
CONFIG = """
secrets: {{one: {{file: "{folder}/one"}}, two: {{file: "{folder}/two"}}}}
brokers:
  secrets:
    ingress:
      - http:
          listen: "127.0.0.1:0"
          authenticate:
            - hmac: {{header: x-sig, unsigned_attributes: true, secrets: ["${{secret:one}}", "${{secret:two}}"]}}
  files:
    ingress:
      - http:
          listen: "127.0.0.1:0"
          authenticate:
            - hmac: {{header: x-sig, unsigned_attributes: true, secret_files: ["{folder}/three", "{folder}/four"]}}
  certificates:
    ingress:
      - http:
          listen: "127.0.0.1:0"
          tls: {{cert_file: "{cert_file}", key_file: "{key_file}", client_ca_file: "{folder}/clients.pem"}}
          authenticate: [mtls: {{common_names: [orders]}}]
triggers:
  secrets: {{broker: secrets, subscriber: {{file: {{path: "{folder}/secrets.jsonl"}}}}}}
  files: {{broker: files, subscriber: {{file: {{path: "{folder}/files.jsonl"}}}}}}
  certificates: {{broker: certificates, subscriber: {{file: {{path: "{folder}/certificates.jsonl"}}}}}}
"""


class Sender(threading.Thread):
    """Sends events one after another with what is valid at the time. `accepted` and `refused` are the ids."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url = url
        self.secret = ""
        self.tls: ssl.SSLContext | bool = False
        self.accepted: list[str] = []
        self.refused: list[str] = []
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.01):
            id = f"event-{len(self.accepted)}"
            try:
                status = self.post(id)
            except httpx.HTTPError as e:
                self.refused.append(f"{id}: {e!r}")
                continue
            (self.accepted if status == 202 else self.refused).append(id)

    def post(self, id: str, secret: str | None = None, tls: ssl.SSLContext | None = None) -> int:
        signature = hmac.new((secret or self.secret).encode(), b"{}", hashlib.sha256).hexdigest()
        event = {"ce-specversion": "1.0", "ce-id": id, "ce-source": "/s", "ce-type": "t", "x-sig": signature}
        with web.client(verify=self.tls if tls is None else tls, timeout=60) as client:
            return client.post(self.url, headers=event, content=b"{}").status_code


@contextmanager
def sending(senders: list[Sender]) -> Iterator[None]:
    for sender in senders:
        sender.start()
    try:
        yield
    finally:
        for sender in senders:
            sender.ended.set()
        for sender in senders:
            sender.join()


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_in(sender: Sender, **credentials: object) -> bool:
    try:
        return sender.post("probe", **credentials) == 202  # type: ignore[arg-type]
    except httpx.HTTPError:
        return False


@pytest.mark.spec("HM-08", "HM-02")
@pytest.mark.parametrize("rounds", [1, pytest.param(6, marks=pytest.mark.full)])
def test_rotation_under_load(tmp_path: Path, rounds: int) -> None:
    authorities = [trustme.CA(key_type=KIND), trustme.CA(key_type=KIND)]
    site = trustme.CA(key_type=KIND)
    authorities[0].cert_pem.write_to_path(tmp_path / "clients.pem")
    for name in ("one", "two", "three", "four"):
        (tmp_path / name).write_text(f"secret-{name}-0123456789")
    config = CONFIG.format(folder=tmp_path, **server_files(site, tmp_path))
    with GatewayProcess(config, tmp_path) as gateway:
        senders = [Sender(gateway.ingress(name)) for name in NAMES]
        secrets, files, certificates = senders
        secrets.secret, files.secret = "secret-one-0123456789", "secret-three-0123456789"
        certificates.tls = trusting(site, tmp_path, client_pem(authorities[0], (CN, "orders")))
        with sending(senders):
            for number in range(rounds):
                for sender, (one, two) in ((secrets, ("one", "two")), (files, ("three", "four"))):
                    new = f"secret-{number}-{two}-0123456789"
                    (tmp_path / (one if number % 2 else two)).write_text(new)
                    until(lambda s=sender, n=new: is_in(s, secret=n))  # type: ignore[misc]
                    before, sender.secret = sender.secret, new
                    assert sender.post("probe", secret=before) == 202, "the old one counts until it is replaced"
                old, other = authorities[number % 2], authorities[(number + 1) % 2]
                server_files(site, tmp_path)
                (tmp_path / "clients.pem").write_bytes(old.cert_pem.bytes() + other.cert_pem.bytes())
                tls = trusting(site, tmp_path, client_pem(other, (CN, "orders")))
                until(lambda t=tls: is_in(certificates, tls=t))  # type: ignore[misc]
                gone, certificates.tls = certificates.tls, tls
                (tmp_path / "clients.pem").write_bytes(other.cert_pem.bytes())
                until(lambda t=gone: not is_in(certificates, tls=t))  # type: ignore[misc]
        gateway.wait_until(gateway.drained, 60, "the deliveries")
        assert gateway.stop() == 0
    for sender, name in zip(senders, NAMES, strict=True):
        assert sender.refused == []
        assert len(sender.accepted) > 20
        kept = {json.loads(line)["id"] for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()}
        assert set(sender.accepted) <= kept
