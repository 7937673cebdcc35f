"""Attacks on ingresses that are closed by signatures and certificates, one row each, over real sockets and TLS.

To add one: a row in `ATTACKS`, with the broker whose ingress it attacks, what is sent, the status (0: the TLS handshake
fails), and what the problem says. After each attack the same ingress still lets in who may send.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import hmac
import ssl
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
import trustme
from gateway_testing import GatewayProcess
from standardwebhooks import Webhook

from tests import web
from tests.access.certificates import CN, KIND, ORGANIZATION, client_pem, server_files, trusting

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.xdist_group("signed_attacks")]

SECRET, WEBHOOKS = "0123456789abcdef-secret", "whsec_" + base64.b64encode(b"k" * 24).decode()
EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/shop", "ce-type": "order.placed"}
BODY = b'{"order":1}'

CONFIG = """
secrets: {{hmac: {{env: HMAC}}, webhooks: {{env: WEBHOOKS}}}}
brokers:
  hmac:
    ingress:
      - http:
          listen: "127.0.0.1:0"
          authenticate:
            - hmac:
                header: x-signature
                timestamp_header: x-timestamp
                signed: "{{timestamp}}.{{body}}"
                secrets: ["${{secret:hmac}}"]
                remember: 1000
          codec: {{webhook: {{type: order.placed, source: /shop, id: "{{x-id}}"}}}}
  webhooks:
    ingress:
      - http:
          listen: "127.0.0.1:0"
          authenticate: [standard_webhooks: {{secrets: ["${{secret:webhooks}}"]}}]
          codec: {{webhook: {{type: order.placed, source: /shop, id: "{{x-id}}"}}}}
  names:
    ingress:
      - http:
          listen: "127.0.0.1:0"
          tls: {{cert_file: "{cert_file}", key_file: "{key_file}", client_ca_file: "{client_ca_file}"}}
          authenticate:
            - mtls:
                common_names: [orders]
                dns: ["*.orders.svc"]
                uris: ["spiffe://shop.example/ns/prod/*"]
  http2:
    ingress:
      - http:
          listen: "127.0.0.1:0"
          server: hypercorn
          tls: {{cert_file: "{cert_file}", key_file: "{key_file}", client_ca_file: "{client_ca_file}"}}
          authenticate: [mtls: {{common_names: [orders]}}]
"""


class Site:
    """The gateway, its certificate authority, and another one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca, self.other = trustme.CA(key_type=KIND), trustme.CA(key_type=KIND)
        self.ca.cert_pem.write_to_path(folder / "clients.pem")
        files = server_files(self.ca, folder)
        config = CONFIG.format(**files, client_ca_file=folder / "clients.pem")
        self.gateway = GatewayProcess(config, folder, {"HMAC": SECRET, "WEBHOOKS": WEBHOOKS})
        self.sent = 0

    def post(self, broker: str, headers: Headers, body: bytes = BODY, tls: ssl.SSLContext | None = None) -> Answer:
        pairs = list(headers.items()) if isinstance(headers, dict) else headers
        event = {"x-id": "1"} if broker in ("hmac", "webhooks") else EVENT
        http2 = broker == "http2"
        with web.client(verify=tls or False, timeout=60, http1=not http2, http2=http2) as client:
            answer = client.post(self.gateway.ingress(broker), headers=[*event.items(), *pairs], content=body)
        return answer.status_code, answer.text

    def unique(self) -> bytes:
        """A body that nobody sent before."""
        self.sent += 1
        return b'{"number":%d}' % self.sent

    def certified(self, pem: bytes | None, broker: str = "names") -> Answer:
        """A request with this client certificate."""
        return self.post(broker, {}, tls=trusting(self.ca, self.folder, pem))


Headers = dict[str, str] | list[tuple[str, str]]
Answer = tuple[int, str]


class Attack(NamedTuple):
    """`broker` has the ingress, `send` attacks it, `status` and `says` are the answer."""

    broker: str
    send: Callable[[Site], Answer]
    status: int
    says: str


# -- what is sent -----------------------------------------------------------------------------------------------------


def signature(body: bytes, at: int | str, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()


def timed(body: bytes = BODY, ago: int = 0, secret: str = SECRET) -> dict[str, str]:
    at = int(time.time()) - ago
    return {"x-signature": signature(body, at, secret), "x-timestamp": str(at)}


def signed(says: str, headers: Callable[[], Headers]) -> Attack:
    """An attack on the ingress with `hmac`."""
    return Attack("hmac", lambda site: site.post("hmac", headers()), 401, says)


def webhook(body: bytes = BODY, *secrets: str, id: str = "msg_1", ago: int = 0) -> dict[str, str]:
    at = datetime.fromtimestamp(int(time.time()) - ago, UTC)
    signatures = [Webhook(secret).sign(id, at, body.decode()) for secret in secrets or (WEBHOOKS,)]
    stamp = str(int(at.timestamp()))
    return {"webhook-id": id, "webhook-timestamp": stamp, "webhook-signature": " ".join(signatures)}


def hooked(says: str, headers: Callable[[], Headers]) -> Attack:
    """An attack on the ingress with `standard_webhooks`."""
    return Attack("webhooks", lambda site: site.post("webhooks", headers()), 401, says)


def certified(status: int, says: str, make: Callable[[Site], bytes | None], broker: str = "names") -> Attack:
    """An attack on an ingress with `mtls`."""
    return Attack(broker, lambda site: site.certified(make(site), broker), status, says)


def replay_in_the_window(site: Site) -> Answer:
    headers = timed(body := site.unique())
    assert site.post("hmac", headers, body)[0] == 202
    return site.post("hmac", headers, body)


def signed_after_coding(site: Site) -> Answer:
    """The signature is that of the body without its coding, which nobody has sent."""
    body = site.unique()
    return site.post("hmac", {**timed(body), "content-encoding": "gzip"}, gzip.compress(body))


def bomb(site: Site) -> Answer:
    """Nothing is unpacked for strangers."""
    packed = gzip.compress(b"0" * 900_000)
    return site.post("hmac", {**timed(b"x"), "content-encoding": "gzip"}, packed)


# -- the table --------------------------------------------------------------------------------------------------------

TOO_FAR, FITS_NOT, NO_NAME = "too far from the gateway's time", "does not fit the body", "none of the names"
OTHER = "whsec_" + base64.b64encode(b"o" * 24).decode()

ATTACKS: dict[str, Attack] = {
    # hmac
    "no signature": signed("has no credentials", dict),
    "replay outside the window": signed(TOO_FAR, lambda: timed(ago=301)),
    "signed for the future": signed(TOO_FAR, lambda: timed(ago=-400)),
    "replay inside the window": Attack("hmac", replay_in_the_window, 401, "has come before"),
    "wrong secret": signed(FITS_NOT, lambda: timed(secret="guess")),
    "signature of another body": signed(FITS_NOT, lambda: timed(b'{"order":2}')),
    "truncated signature": signed("malformed", lambda: {**timed(), "x-signature": timed()["x-signature"][:32]}),
    "empty signature": signed("malformed", lambda: {**timed(), "x-signature": ""}),
    "two signatures": signed("twice", lambda: [("x-signature", "0" * 64), *timed().items()]),
    "two timestamps": signed("twice", lambda: [*timed().items(), ("x-timestamp", "1")]),
    "attributes that are not signed": signed("does not cover", lambda: {**timed(), **EVENT}),
    "no timestamp": signed("no timestamp", lambda: {"x-signature": timed()["x-signature"]}),
    "timestamp is no number": signed("not a number", lambda: {**timed(), "x-timestamp": "tomorrow"}),
    "timestamp changed": signed(FITS_NOT, lambda: {**timed(), "x-timestamp": str(int(time.time()) + 1)}),
    "signed before coding": Attack("hmac", signed_after_coding, 401, FITS_NOT),
    "gzip bomb": Attack("hmac", bomb, 401, FITS_NOT),
    # Standard Webhooks
    "webhook: wrong secret": hooked("no signature fits", lambda: webhook(BODY, OTHER)),
    "webhook: replay outside the window": hooked(TOO_FAR, lambda: webhook(ago=301)),
    "webhook: another body": hooked("no signature fits", lambda: webhook(b"{}")),
    "webhook: another id": hooked("no signature fits", lambda: {**webhook(), "webhook-id": "msg_2"}),
    "webhook: another version": hooked(
        "no signature fits",
        lambda: {**webhook(), "webhook-signature": webhook()["webhook-signature"].replace("v1,", "v1a,")},
    ),
    "webhook: attributes that are not signed": hooked("does not cover", lambda: {**webhook(), **EVENT}),
    "webhook: two header fields": hooked("twice", lambda: [("webhook-signature", "v1,AA=="), *webhook().items()]),
    # mtls
    "no certificate": certified(0, "", lambda site: None),
    "other CA": certified(0, "", lambda site: client_pem(site.other, (CN, "orders"))),
    "expired certificate": certified(0, "", lambda site: client_pem(site.ca, (CN, "orders"), days=-1)),
    "right CA, wrong subject": certified(403, NO_NAME, lambda site: client_pem(site.ca, (CN, "billing"))),
    "name in the wrong field": certified(403, NO_NAME, lambda site: client_pem(site.ca, (ORGANIZATION, "orders"))),
    "NUL in the common name": certified(403, NO_NAME, lambda site: client_pem(site.ca, (CN, "orders\0.evil"))),
    "two common names": certified(403, NO_NAME, lambda site: client_pem(site.ca, (CN, "evil"), (CN, "orders"))),
    "wildcard in the certificate": certified(
        403, NO_NAME, lambda site: client_pem(site.ca, (CN, "*"), dns=["*.orders.svc"])
    ),
    "NUL in a DNS name": certified(
        403, NO_NAME, lambda site: client_pem(site.ca, (CN, "x"), dns=["a.orders.svc\0.evil"])
    ),
    "two labels for one `*`": certified(
        403, NO_NAME, lambda site: client_pem(site.ca, (CN, "x"), dns=["a.b.orders.svc"])
    ),
    "HTTP/2, other CA": certified(0, "", lambda site: client_pem(site.other, (CN, "orders")), "http2"),
    "HTTP/2, wrong subject": certified(403, NO_NAME, lambda site: client_pem(site.ca, (CN, "billing")), "http2"),
    "another trust domain": certified(
        403, NO_NAME, lambda site: client_pem(site.ca, (CN, "x"), uris=["spiffe://shop.example.evil/ns/prod/a"])
    ),
}


def valid(site: Site, broker: str) -> Answer:
    """A request of someone who may send."""
    if broker == "hmac":
        return site.post("hmac", timed(body := site.unique()), body)
    if broker == "webhooks":
        return site.post("webhooks", webhook())
    return site.certified(client_pem(site.ca, (CN, "orders")), broker)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("site"))
    with made.gateway:
        yield made


@pytest.mark.spec("HM-07", "HM-11", "HM-13", "HM-14")
@pytest.mark.parametrize("name", ATTACKS)
def test_the_attack_is_refused(name: str, site: Site) -> None:
    row = ATTACKS[name]
    try:
        status, text = row.send(site)
    except (httpx.ConnectError, httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError):
        status, text = 0, ""
    assert status == row.status, text
    assert row.says in text
    assert valid(site, row.broker)[0] == 202
    assert SECRET not in site.gateway.log()


@pytest.mark.spec("HM-12")
def test_what_is_signed_is_what_was_sent(site: Site) -> None:
    packed = gzip.compress(site.unique())
    assert site.post("hmac", {**timed(packed), "content-encoding": "gzip"}, packed)[0] == 202


@pytest.mark.spec("HM-13")
def test_each_name_lets_in(site: Site) -> None:
    anyone = (CN, "x")
    assert site.certified(client_pem(site.ca, anyone, dns=["evil", "eu.orders.svc"]))[0] == 202
    assert site.certified(client_pem(site.ca, anyone, uris=["spiffe://shop.example/ns/prod/sa/orders"]))[0] == 202
