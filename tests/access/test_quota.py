"""Quotas on a simulated clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gateway_access.quota import Quotas, network_of, size_of
from gateway_access.quota_config import QuotaConfig
from gateway_testing import FakeClock

from gateway_core.config.registry import Registry
from gateway_core.contract.authenticator import TooManyRequests
from gateway_core.contract.component import BuildContext
from gateway_core.contract.errors import Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.identity import ANONYMOUS, Identity
from gateway_core.contract.peer import Peer

BILLING = Identity("key billing", "api_key", "api_key")
ORDERS = Identity("key orders", "api_key", "api_key")


def request(body: bytes = b"{}", address: str = "192.0.2.1:5000") -> Message:
    message = Message([], body)
    message.peer = Peer(address)
    return message


def events(count: int = 1, data: bytes = b"{}", **attributes: Any) -> list[Event]:
    return [Event({"id": str(n), "type": "t", **attributes}, data) for n in range(count)]


class Ingress:
    def __init__(self, workers: int = 1, **options: Any) -> None:
        self.clock = FakeClock()
        context = BuildContext("here", Path("/nowhere"), self.clock, Registry(), workers=workers)
        self.quotas = Quotas(QuotaConfig.model_validate(options), context)

    def sends(self, who: Identity = BILLING, body: bytes = b"{}", address: str = "192.0.2.1:5000") -> int:
        return status(self.quotas.request(who, request(body, address)))

    def brings(self, found: list[Event], who: Identity = BILLING) -> int:
        return status(self.quotas.events(who, request(), found))

    def passes(self, count: int, **sent: Any) -> int:
        return sum(self.sends(**sent) == 202 for _ in range(count))


def status(refusal: Refused | None) -> int:
    if refusal is None:
        return 202
    if refusal.status == 429:
        assert isinstance(refusal, TooManyRequests)
        ((name, value),) = refusal.headers
        assert name == b"retry-after"
        assert int(value) >= max(1, refusal.retry_after_s)
    return refusal.status


@pytest.mark.spec("LI-01", "LI-02")
def test_requests() -> None:
    ingress = Ingress(per_identity={"requests_per_s": 10, "burst_s": 2})
    assert ingress.passes(30) == 20
    assert ingress.sends() == 429
    assert ingress.passes(30, who=ORDERS) == 20  # each sender has a quota of its own
    ingress.clock.advance(0.5)
    assert ingress.passes(30) == 5
    ingress.clock.advance(3600)
    assert ingress.passes(30) == 20  # no more is saved up


@pytest.mark.spec("LI-02")
def test_a_slow_rate_lets_one_request_pass() -> None:
    ingress = Ingress(per_identity={"requests_per_s": 0.1})
    assert ingress.sends() == 202
    refusal = ingress.quotas.request(BILLING, request())
    assert refusal is not None
    assert refusal.headers == ((b"retry-after", b"10"),)
    assert refusal.detail == "The quota of 0.1 requests a second is used up."
    ingress.clock.advance(10)
    assert ingress.sends() == 202


@pytest.mark.spec("LI-02", "LI-03")
def test_bytes() -> None:
    ingress = Ingress(per_identity={"bytes_per_s": 1000, "burst_s": 2})
    assert ingress.sends(body=b"x" * 2001) == 413  # could never pass
    assert ingress.sends(body=b"x" * 1500) == 202
    assert ingress.sends(body=b"x" * 600) == 429
    assert ingress.sends(body=b"x" * 500) == 202
    assert ingress.sends(body=b"") == 202
    assert ingress.sends(body=b"x" * 2000) == 429
    ingress.clock.advance(2)
    assert ingress.sends(body=b"x" * 2000) == 202


@pytest.mark.spec("LI-02", "LI-03")
def test_events() -> None:
    ingress = Ingress(per_identity={"events_per_s": 10})
    assert ingress.brings(events(11)) == 413
    assert ingress.brings(events(8)) == 202
    assert ingress.brings(events(3)) == 429  # all or none: two would have been left
    assert ingress.brings(events(2)) == 202
    assert ingress.brings([]) == 202
    assert ingress.sends() == 202  # requests are not limited
    ingress.clock.advance(0.1)
    assert ingress.brings(events(1)) == 202


@pytest.mark.spec("LI-03")
def test_sizes() -> None:
    ingress = Ingress(per_identity={"max_event_bytes": 100, "max_batch": 3}, total={"max_event_bytes": 50})
    assert ingress.brings(events(3)) == 202
    assert ingress.brings(events(4)) == 413
    assert size_of(events(1, b"x" * 40, note="é", n=12, yes=True)[0]) == 40 + 3 + 5 + 6 + 3 + 7
    assert ingress.brings(events(1, b"x" * 42)) == 202
    assert ingress.brings(events(1, b"x" * 43)) == 413
    refusal = ingress.quotas.events(BILLING, request(), [*events(1), *events(1, b"x" * 100)])
    assert refusal is not None  # counted from 0, as elsewhere
    assert refusal.detail == "event 1 of the batch: it has 108 bytes; 50 are allowed"


@pytest.mark.spec("LI-02")
def test_what_one_limit_refuses_uses_nothing_of_another() -> None:
    ingress = Ingress(per_identity={"requests_per_s": 5}, total={"requests_per_s": 8})
    assert ingress.passes(100) == 5
    assert ingress.passes(100, who=ORDERS) == 3  # the refused ones of the first sender did not count
    ingress.clock.advance(1)
    assert ingress.passes(100, who=ORDERS) == 5  # those that the total refused did not count either


@pytest.mark.spec("LI-02")
def test_overrides() -> None:
    ingress = Ingress(
        per_identity={"requests_per_s": 1},
        overrides=[{"from": ["key bill*"], "requests_per_s": 5}, {"from": ["key billing", "key orders"]}],
    )
    assert ingress.passes(50) == 5  # the first that fits
    assert ingress.passes(50, who=ORDERS) == 50  # no limit
    assert ingress.passes(50, who=Identity("key other", "api_key")) == 1
    assert ingress.passes(50, who=Identity("key order", "api_key")) == 1


@pytest.mark.spec("LI-02")
def test_an_override_fits_as_an_entry_of_allow_does() -> None:
    ingress = Ingress(
        per_identity={"requests_per_s": 1},
        overrides=[
            {"from": ["*"], "authenticator": "door", "requests_per_s": 3},
            {"from": ["anonymous"], "requests_per_s": 2},
            {"from": ["*"], "requests_per_s": 5},
        ],
    )
    assert ingress.passes(50, who=Identity("key billing", "door")) == 3
    assert ingress.passes(50, who=ANONYMOUS) == 2  # `*` does not stand for senders without credentials
    assert ingress.passes(50, who=Identity("anonymous", "oidc")) == 5
    assert ingress.passes(50) == 5


@pytest.mark.spec("LI-04")
def test_a_name_that_two_authenticators_give_out_is_two_senders() -> None:
    ingress = Ingress(per_identity={"requests_per_s": 2, "events_per_s": 2})
    for authenticator in ("oidc", "door"):
        who = Identity("anna", authenticator)
        assert ingress.passes(3, who=who) == 2
        assert [ingress.brings(events(1), who=who) for _ in range(3)] == [202, 202, 429]


@pytest.mark.spec("LI-04")
@pytest.mark.parametrize("name", ["key bulk", "key bulk*"])
def test_a_flood_of_names_leaves_overrides_as_they_are(name: str) -> None:
    overrides = [{"from": [name, "key other"], "requests_per_s": 3}]
    ingress = Ingress(per_identity={"requests_per_s": 10}, overrides=overrides, identities=4)
    for number in range(20):
        ingress.passes(1, who=Identity(f"user {number}", "basic"))
    assert ingress.passes(50, who=Identity("key bulk", "api_key")) == 3
    assert ingress.passes(50, who=Identity("key other", "api_key")) == 3


@pytest.mark.spec("LI-04")
def test_a_flood_of_names_lifts_no_limit() -> None:
    """Even if only overrides have limits."""
    ingress = Ingress(overrides=[{"from": ["key *"], "requests_per_s": 3}], identities=4)
    assert ingress.passes(50, who=Identity("user anna", "basic")) == 50
    for number in range(20):
        assert ingress.passes(1, who=Identity(f"user {number}", "basic")) == 1
        ingress.passes(2, who=Identity(f"key {number}", "api_key"))
    assert ingress.passes(50, who=Identity("key last", "api_key")) == 0  # shares with those that found no room
    assert ingress.passes(50, who=Identity("key 1", "api_key")) == 1
    assert len(ingress.quotas) <= 4 * 4


@pytest.mark.spec("LI-04")
def test_senders_that_are_named_one_by_one_are_held() -> None:
    overrides = [{"from": ["key vip", "key *"], "requests_per_s": 3}]
    ingress = Ingress(overrides=overrides, identities=4)
    for number in range(20):
        ingress.passes(5, who=Identity(f"key {number}", "api_key"))
    assert ingress.passes(50, who=Identity("key vip", "api_key")) == 3


@pytest.mark.spec("LI-02")
def test_workers_share_a_rate() -> None:
    ingress = Ingress(workers=4, per_identity={"requests_per_s": 8, "bytes_per_s": 4000, "events_per_s": 40})
    assert ingress.passes(10) == 2
    ingress.clock.advance(1)
    assert ingress.passes(10) == 2
    ingress.clock.advance(10)
    assert ingress.sends(body=b"x" * 4000) == 202  # what fits the whole burst is not refused for good
    ingress.clock.advance(3.9)
    assert ingress.sends(body=b"x" * 4000) == 429
    ingress.clock.advance(0.1)
    assert ingress.sends(body=b"x" * 4000) == 202
    assert ingress.sends(body=b"x" * 4001) == 413
    assert ingress.brings(events(40)) == 202


@pytest.mark.spec("LI-04")
def test_anonymous_senders_count_by_address() -> None:
    ingress = Ingress(per_identity={"requests_per_s": 3})
    assert ingress.passes(5, who=ANONYMOUS, address="192.0.2.1:1") == 3
    assert ingress.passes(5, who=ANONYMOUS, address="192.0.2.1:2") == 0
    assert ingress.passes(5, who=ANONYMOUS, address="192.0.2.2:1") == 3
    assert ingress.passes(5, who=ANONYMOUS, address="[2001:db8::1]:1") == 3
    assert ingress.passes(5, who=ANONYMOUS, address="[2001:db8::ffff:1]:1") == 0  # the same /64
    assert ingress.passes(5, who=ANONYMOUS, address="[2001:db8:0:1::1]:1") == 3
    assert ingress.passes(5, who=ANONYMOUS, address="[::ffff:192.0.2.2]:1") == 0  # IPv4
    assert ingress.passes(5, who=BILLING, address="192.0.2.1:1") == 3


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("", ""),
        ("192.0.2.1:80", "192.0.2.1"),
        ("[fe80::1%eth0]:80", "fe80::/64"),
        ("[2001:db8:1:2:3:4:5:6]:80", "2001:db8:1:2::/64"),
        ("[::1]:80", "::/64"),
        ("[::ffff:192.0.2.1]:80", "192.0.2.1"),
        ("[no:address]:80", "no:address"),
    ],
)
def test_networks(address: str, network: str) -> None:
    assert network_of(request(address=address)) == network


def test_a_request_without_a_peer_has_an_unknown_address() -> None:
    assert network_of(Message([])) == ""


@pytest.mark.spec("LI-04")
def test_strangers_take_no_room_from_senders_who_are_known() -> None:
    ingress = Ingress(per_identity={"requests_per_s": 2}, identities=10)
    for number in range(50):
        ingress.passes(3, who=ANONYMOUS, address=f"198.51.100.{number}:1")
    assert ingress.passes(3, who=ANONYMOUS, address="203.0.113.1:1") == 0  # shares what those have who found no room
    assert ingress.passes(3, who=BILLING) == 2
    assert ingress.passes(3, who=ANONYMOUS, address="198.51.100.1:1") == 0  # nobody got a new quota


@pytest.mark.spec("LI-05")
def test_guessing_is_slow() -> None:
    ingress = Ingress(failures_per_minute=6)
    quotas = ingress.quotas
    for _ in range(6):
        assert quotas.attempt(request()) is None
        quotas.failed(request())
    refusal = quotas.attempt(request())
    assert status(refusal) == 429
    assert refusal is not None
    assert refusal.headers == ((b"retry-after", b"10"),)
    assert quotas.attempt(request(address="192.0.2.2:1")) is None
    ingress.clock.advance(10)
    assert quotas.attempt(request()) is None
    quotas.failed(request())
    assert status(quotas.attempt(request())) == 429
    unlimited = Ingress(failures_per_minute=None).quotas
    for _ in range(100):
        unlimited.failed(request())
    assert unlimited.attempt(request()) is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"per_identity": {"requests_per_s": 0}}, "greater than 0"),
        ({"per_identity": {"requests_per_s": float("inf")}}, "finite"),
        ({"per_identity": {"max_batch": 0}}, "greater than or equal to 1"),
        ({"total": {"bytes_per_s": 10, "burst_s": 0.01}}, "`total` lets no byte pass"),
        ({"overrides": [{"from": ["a"], "bytes_per_s": 0.5}]}, "`overrides.0.` lets no byte pass"),
        ({"overrides": [{"from": []}]}, "at least 1"),
        ({"overrides": [{"from": [""]}]}, "a subject can't be empty"),
        ({"overrides": [{"from": ["key *.eu"]}]}, "may only be the last character"),
        ({"overrides": [{"requests_per_s": 1}]}, "from"),
        ({"identities": 0}, "greater than or equal to 1"),
        ({"burst": 1}, "Extra inputs"),
    ],
)
def test_wrong_options(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        QuotaConfig.model_validate(options)
