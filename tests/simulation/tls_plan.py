"""Plans with TLS: at the gateway's listener, and at every server over HTTP."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .plan import Config, Fault, Plan

SHARE = 0.25
"""The part of the seeds without another rule."""
STOPS = ("restart", "crash", "power")


def secured(seed: int) -> Plan | None:
    """The plan of a seed with TLS; None for other seeds."""
    random = Random(f"{seed}/tls")
    return _drawn(random, seed) if random.random() < SHARE else None


def _config(random: Random) -> Config:
    from .plan import Bridge, Config, Policy, Trigger

    def policy(retry: int) -> Policy:
        return Policy(
            retry=retry,
            timeout_s=random.choice((0.5, 1.5, 5.0)),
            backoff_delay_s=random.choice((0.05, 0.2)),
            max_in_flight=random.choice((1, 4, 16)),
            order=random.choice(("unordered", "unordered", "partition", "key")),
        )

    triggers = tuple(Trigger(f"t{number}", policy=policy(10)) for number in range(1, random.choice((2, 3))))
    bridges = (Bridge("b1", policy(0), random.random() < 0.5),) if random.random() < 0.3 else ()
    return Config(
        triggers,
        bridges,
        dead_letter=random.choice(("http", "file")),
        drain_timeout_s=random.choice((0.0, 5.0)),
        tls=True,
    )


def _drawn(random: Random, seed: int) -> Plan:
    """Handshakes that stop or are cut, ends without a word, connections that die, renewed certificates, stops."""
    from .plan import Event, Fault, Network, Plan, Send

    first = _config(random)
    configs = (first, replace(_config(random), bridges=first.bridges)) if random.random() < 0.4 else (first,)
    servers, seconds = sorted({name for config in configs for name in config.names}), 40.0
    half = random.random() < 0.2  # a certificate whose key is to come: a start would fail
    faults: list[Fault] = []

    def add(kind: str, target: str = "", lasting: float = 0.0, amount: int = 0) -> None:
        faults.append(Fault(round(random.uniform(0.5, seconds), 3), kind, target, lasting, amount))

    for _ in range(random.choice((1, 4, 10))):
        kind = random.choice(("tls-silent", "tls-handshake", "tls-cut", "tls-cut", *_OF_SERVERS))
        amount = random.choice((0, 1, 200, 301)) if kind == "tls-handshake" else random.choice((1, 60, 100))
        amount = random.choice((400, 503)) if kind == "status" else amount
        add(kind, random.choice(servers), random.choice((0.5, 3.0, 15.0)), amount)
    for _ in range(random.choice((0, 1, 5))):
        add("tls-hello", amount=random.choice((0, 1, 100, 10_000)))
    for _ in range(random.choice((0, 0, 2, 5))):
        kind = random.choice(("sender-cut", "sender-leave", "sender-stall", "sender-nonsense"))
        lasting = random.choice((0.5, 5.0, 20.0)) if kind == "sender-stall" else 0.0
        amount = random.randrange(8) if kind == "sender-nonsense" else random.choice((0, 20, 200))
        add(kind, str(random.randrange(4)), lasting, amount)
    for number in range(random.choice((0, 1, 3))):
        add("tls-renew", lasting=1.5 if half else 0.0, amount=random.choice((1, 2)) if not half else -1 - number % 2)
    if not half:
        for _ in range(random.choice((0, 1, 3))):
            add(random.choice(STOPS), lasting=random.choice((0.0, 0.5)), amount=0)
        if len(configs) > 1:
            for _ in range(random.choice((1, 3))):
                add("reload", amount=random.randrange(2))
    if random.random() < 0.2:
        add("freeze", lasting=random.choice((0.5, 12.0)))
    sends = []
    targets = ["default", "default", *(bridge.name for bridge in first.bridges)]
    for number in range(random.choice((10, 40, 80))):
        event = Event(f"e{number}", key=random.choice(("", "k1", "k2")), size=random.choice((0, 8, 500, 20_000)))
        to, tries = random.choice(targets), random.choice((1, 3))
        at = round(random.uniform(0.5, seconds), 4)
        sends.append(Send(at, (event,), random.randrange(4), to, random.choice(("binary", "structured")), tries))
    # the length of a session ticket is drawn by OpenSSL: with small pieces it would change what the jitter draws
    network = random.choice(
        (Network(0.0005), Network(0.005, 0.002), Network(0.005, piece=100), Network(0.05, 0.1, 1460))
    )
    return Plan(
        seed,
        configs,
        tuple(sorted(sends, key=lambda send: send.at)),
        tuple(sorted(faults, key=lambda fault: fault.at)),
        network,
        seconds,
    )


_OF_SERVERS = ("vanish", "stall", "refuse", "silent", "cut-answer", "close", "pieces", "status")
