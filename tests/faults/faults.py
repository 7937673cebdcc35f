"""The faults. Each does one thing to a lab under load, and returns when the load goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

from tests.faults.lab import USERS, Lab


@dataclass(frozen=True, slots=True)
class Scenario:
    """A row of the matrix: what happens `rounds` times, and how the gateway is started."""

    name: str
    happens: Callable[[Lab], None]
    rounds: int
    workers: int = 1
    queue_bytes: int = 1 << 26


def kill_server(lab: Lab) -> None:
    """kill -9 of the server, and a restart with its data."""
    lab.restart_server()


def cut(lab: Lab) -> None:
    """The gateway's connections break in the middle of a message."""
    before = lab.proxy.cuts
    lab.proxy.cut(after_bytes=lab.chance.randrange(1, 5000))
    lab.wait(lambda: lab.proxy.cuts > before, "a connection to be cut")
    lab.proxy.heal()


def stall(lab: Lab) -> None:
    """Nothing passes for a while; then all of it comes at once."""
    lab.proxy.stall()
    lab.more(200)
    lab.proxy.heal()


def forget(lab: Lab) -> None:
    """The gateway's connections die without a word: nothing passes on them any more, and neither end is told."""
    before = lab.proxy.accepted
    assert lab.proxy.forget()
    lab.wait(lambda: lab.proxy.accepted > before, "the gateway to reconnect")


def slow(lab: Lab) -> None:
    """The connection becomes slow for a while."""
    lab.proxy.slow(20_000)
    lab.more(200)
    lab.proxy.heal()


def kill_gateway(lab: Lab) -> None:
    """kill -9 of the gateway."""
    lab.gateway.kill()
    lab.more(20)
    lab.gateway.start(120)


def evict(lab: Lab) -> None:
    """The server throws out the gateway's consumer."""
    lab.adapter.evict(lab.direct)


def kill_worker(lab: Lab) -> None:
    """kill -9 of one of the workers; the supervisor starts another."""
    lab.wait(lambda: len(lab.gateway_workers()) == 2, "two workers")
    victim = lab.chance.choice(sorted(lab.gateway_workers()))
    os.kill(victim, signal.SIGKILL)
    lab.wait(lambda: victim not in (found := lab.gateway_workers()) and len(found) == 2, "another worker")


def poison(lab: Lab) -> None:
    """A message that is no event, among all the others."""
    lab.adapter.poison(lab.direct)
    lab.poisoned += 1


def fill(lab: Lab) -> None:
    """The server takes no more messages for a while. Without such a server, this row shows the gateway's own queue."""
    lab.proxy.stall()
    lab.more(200)
    fills = lab.adapter.fill(lab.direct, True)
    lab.proxy.heal()
    if not fills:
        return
    try:
        before = lab.retried()
        lab.wait(lambda: lab.retried() > before, "the gateway to notice")
    finally:
        lab.adapter.fill(lab.direct, False)


def revoke(lab: Lab) -> None:
    """The gateway's user is gone, and comes back when the gateway has tried in vain to log in."""
    before = lab.proxy.accepted
    lab.server.set_users({name: password for name, password in USERS.items() if name != "gateway"})
    try:
        lab.wait(lambda: lab.proxy.accepted >= before + 2, "the gateway to log in again")
    finally:
        lab.server.set_users(USERS)


def play(lab: Lab, happens: Callable[[Lab], None], rounds: int) -> None:
    """Lets it happen so many times, under load before and after."""
    for _ in range(rounds):
        lab.more()
        happens(lab)
        lab.faults += 1
        lab.flowing()  # the next fault is to hit a gateway at work


MATRIX = (
    Scenario("server killed -9 and restarted", kill_server, 10),
    Scenario("connection cut in the middle of a message", cut, 10),
    Scenario("connection stalled", stall, 3),
    Scenario("connection slow", slow, 3),
    Scenario("connection dead without a word", forget, 2),
    Scenario("gateway killed -9", kill_gateway, 10),
    Scenario("consumer evicted", evict, 10),
    Scenario("two workers, one killed -9", kill_worker, 5, workers=2),
    Scenario("poison message", poison, 10),
    Scenario("queue full", fill, 3, queue_bytes=2048),
    Scenario("credentials revoked", revoke, 3),
)
"""The long form, one run each."""

STORM = ((poison, 1), (kill_server, 2), (cut, 1), (evict, 1), (forget, 1), (revoke, 1), (stall, 1), (kill_gateway, 2))
"""The short form: all in one run."""
