"""The kinds of faults, what each one means, and how often plans have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

Drawn = tuple[float, str, str, float, int]
"""The fields of a `plan.Fault`."""

SERVER, TRIGGER, SENDER, GROUP, QUEUE, NONE = "server", "trigger", "sender", "group", "queue", "none"


@dataclass(frozen=True)
class Kind:
    """A kind of fault. `target` says what its target is: a server's name, a trigger's name, the number of a sender's
    connection, the number of a consumer group or topic, the name of a queue's server, or none. `seconds` and `amounts`
    are choices; none if they mean nothing for it."""

    meaning: str
    target: str = NONE
    seconds: tuple[float, ...] = ()
    amounts: tuple[int, ...] = ()
    weight: int = 4


_SHORT = (0.1, 1.0, 5.0, 30.0)
_STEPS = (0, 0, 1, 2, 3, 5, 8, 13, 40)
_AT_BYTE = (0, 1, 10, 60, 100)

KINDS: dict[str, Kind] = {
    # -- the process of the gateway
    "crash": Kind(
        "kill -9, at once (0) or in the `amount`-th change of a file from now; starts again after `seconds`",
        seconds=(0.0, 0.5, 10.0),
        amounts=_STEPS,
    ),
    "power": Kind("as crash, but the machine loses power", seconds=(0.5, 10.0), amounts=_STEPS),
    "restart": Kind("SIGTERM; starts again `seconds` after its end", seconds=(0.0, 0.5, 10.0)),
    "freeze": Kind("SIGSTOP for `seconds`: timers are late, bytes wait", seconds=(0.2, 3.0, 40.0)),
    "clock": Kind("the wall clock jumps by `amount` seconds", amounts=(-86_400, -60, -1, 1, 60, 86_400), weight=2),
    # -- servers at which the gateway delivers
    "status": Kind(
        "answers `amount`", SERVER, _SHORT, (200, 204, 302, 400, 404, 408, 409, 422, 429, 500, 503), weight=8
    ),
    "retry-after": Kind("answers 503 with `Retry-After: amount`", SERVER, _SHORT, (0, 1, 7, 100_000)),
    "refuse": Kind("refuses connections, and cuts those that are open", SERVER, (*_SHORT, 120.0), weight=8),
    "vanish": Kind("no answer to anything on the network, not even to a connection", SERVER, (*_SHORT, 120.0)),
    "silent": Kind("reads requests and never answers", SERVER, (*_SHORT, 120.0)),
    "late": Kind("answers after `amount` ms", SERVER, _SHORT, (10, 400, 600, 4000, 29_000)),
    "stall": Kind("its bytes, in both directions, wait until the end of it", SERVER, _SHORT),
    "cut-answer": Kind("cuts the connection after `amount` bytes of each answer", SERVER, _SHORT, _AT_BYTE),
    "cut-request": Kind("resets the connection after `amount` bytes of each request", SERVER, _SHORT, _AT_BYTE),
    "garbage": Kind("answers with nonsense, the `amount`-th", SERVER, _SHORT, tuple(range(8))),
    "more": Kind("sends `amount` bytes after each answer", SERVER, _SHORT, (1, 40)),
    "close": Kind(
        "ends the connection after an answer without a word, or announces it and leaves the end to the gateway",
        SERVER,
        _SHORT,
    ),
    "pieces": Kind("sends its answers in pieces of `amount` bytes, 20 ms apart", SERVER, _SHORT, (1, 5)),
    "interim": Kind("sends `amount` times 102 before each answer", SERVER, _SHORT, (1, 3)),
    # -- senders' connections
    "sender-cut": Kind(
        "cuts the next request after `amount` bytes", SENDER, amounts=(0, 1, 20, 100, 200, 300, 1000), weight=6
    ),
    "sender-leave": Kind("closes once the next request is sent, without waiting for its answer", SENDER),
    "sender-stall": Kind("its bytes wait for `seconds`", SENDER, _SHORT),
    "sender-nonsense": Kind("sends nonsense, the `amount`-th, on a connection of its own", SENDER, (), tuple(range(8))),
    # -- operators
    "reload": Kind("the config becomes `configs[amount]`", amounts=(0, 1, 2), weight=6),
    "bad-config": Kind("the config becomes one with a fault, then, after `seconds`, the one before", seconds=_SHORT),
    "pause": Kind("pauses the trigger for `seconds`", TRIGGER, _SHORT),
    # -- the disk
    "disk-full": Kind("no more bytes can be written", seconds=_SHORT),
    "disk-error": Kind("the next `amount` writes fail", seconds=_SHORT, amounts=(1, 2, 10)),
    "disk-slow": Kind("every sync takes `amount` ms", seconds=_SHORT, amounts=(10, 300)),
    "sync-error": Kind("syncs fail; after that an operator restarts the gateway", seconds=_SHORT, weight=1),
    # -- plugins of the simulation; `target` is a trigger
    "filter": Kind("the trigger's simulated filter raises", TRIGGER, _SHORT),
    "mapper": Kind("the trigger's simulated key mapper raises", TRIGGER, _SHORT),
    "sink": Kind(
        "the trigger's simulated sink: 0 raises, 1 never answers, 2 answers twice, 3 answers after the time limit, "
        "4 answers with something that is no outcome, 5 raises after it has answered, 6 refuses, 7 fails",
        TRIGGER,
        _SHORT,
        tuple(range(8)),
    ),
    "observer": Kind("the simulated observer raises", seconds=_SHORT),
    "codec": Kind("the simulated codec of the ingress raises", seconds=_SHORT),
    "authenticator": Kind(
        "the simulated authenticator of the ingress: 0 raises, 1 never answers, 2 answers after a second, 3 knows "
        "nobody, 4 answers with something that is no identity, 5 raises once it is awaited, 6 ends its task",
        seconds=(1.0, 5.0, 30.0),
        amounts=tuple(range(7)),
    ),
    # -- what only plans about one rule have (`focus.py`)
    "hang": Kind("never answers a request with the event e`amount`", SERVER),
    "poison": Kind("answers `amount` to a request that has an event like `servers.poisonous`", SERVER),
    "parts": Kind(
        "answers 207 to batches: `amount` for the events like `servers.poisonous`, 200 for the others; 0 leaves "
        "these out, 1 is a body that can't be read",
        SERVER,
    ),
    "mixed": Kind("answers 400 to some events, 503 to the others", SERVER),
    "short": Kind("the gateway's machine has no file descriptor for a connection to a server"),
    "memory": Kind("no memory at the `amount`-th place of `shortages.PLACES`"),
    "sync-once": Kind("the next `amount` syncs of the log fail; after `seconds` an operator restarts the gateway"),
    "disk-lies": Kind("syncs say yes and store nothing"),
    # -- the Kafka cluster
    "kafka-away": Kind(
        "no broker answers: for anybody (0), or only for the gateway, whose sessions end (1)",
        seconds=(0.5, 3.0, 15.0, 60.0),
        amounts=(0, 1),
    ),
    "kafka-slow": Kind("requests and answers take `amount` ms longer", seconds=_SHORT, amounts=(20, 300, 2000)),
    "kafka-fetch": Kind("fetches take `amount` ms longer", seconds=_SHORT, amounts=(50, 3000)),
    "kafka-produce": Kind(
        "produce requests: 0 are refused for now, 1 for good, 2 are done but not answered, 3 are lost",
        seconds=_SHORT,
        amounts=(0, 1, 2, 3),
    ),
    "kafka-commit": Kind("commits: 0 fail, 1 are done but not answered, 2 are late", seconds=_SHORT, amounts=(0, 1, 2)),
    "kafka-move": Kind(
        "another member of the group gets the partitions of which `amount` has the bit", GROUP, _SHORT, (1, 2, 3)
    ),
    "kafka-evict": Kind(
        "another member gets all; the gateway learns it after `amount` ms", GROUP, _SHORT, (0, 300, 3000, 15_000)
    ),
    "kafka-recreate": Kind("a topic is deleted, and created again", GROUP),
    # -- the servers of queues (`queue_plan.py`)
    "queue-away": Kind("refuses connections, and cuts those that are open", QUEUE),
    "queue-vanish": Kind("no answer to anything on the network, not even to a connection", QUEUE),
    "queue-cut": Kind("cuts its connections", QUEUE),
    "queue-consumer": Kind("an administrator deletes the NATS consumers", QUEUE),
    # -- several workers (`worker_plan.py`)
    "worker-crash": Kind("kill -9 of the `amount`-th worker alone"),
    # -- TLS (`tls_plan.py`)
    "tls-silent": Kind("never answers a handshake", SERVER),
    "tls-handshake": Kind("cuts a connection behind `amount` bytes of the handshake; an odd number resets it", SERVER),
    "tls-cut": Kind("ends connections without the word that they end (close_notify)", SERVER),
    "tls-hello": Kind("a stranger sends `amount` bytes of a handshake, and then nothing more"),
    "tls-renew": Kind(
        "the listener gets its `amount`-th certificate; a negative one gets its key only after `seconds`"
    ),
}
IN_TOGETHER = frozenset({"poison", "parts"})
"""What only plans about batches have (`together_plan.py`)."""
IN_FOCUS = frozenset({"hang", "mixed", "short", "memory", "sync-once", "disk-lies"})
DRAWN_APART = (
    IN_FOCUS
    | IN_TOGETHER
    | {"authenticator"}
    | {name for name in KINDS if name.startswith(("kafka-", "queue-", "tls-", "worker-"))}
)
"""Kinds that came later. They are drawn by themselves, so that the plan of a seed has what it had before."""


class Choices:
    """Draws the faults of one plan: some kinds, more or less often."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def faults(
        self, seconds: float, servers: Sequence[tuple[str, ...]], triggers: Sequence[str], configs: int
    ) -> list[Drawn]:
        """Faults for the first `seconds`. `servers` and `triggers` are names, `configs` is the number of configs."""
        random = self._random
        names = sorted(KINDS.keys() - DRAWN_APART)
        chosen = random.sample(names, random.choice((1, 3, 8, len(names))))
        weights = [KINDS[name].weight for name in chosen]
        made: list[Drawn] = []
        for _ in range(random.choice((1, 5, 20, 50, 100))):
            name = random.choices(chosen, weights)[0]
            kind = KINDS[name]
            target = self._target(kind, servers, triggers)
            amount = random.randrange(configs) if name == "reload" else random.choice(kind.amounts or (0,))
            lasting = random.choice(kind.seconds or (0.0,)) * random.choice((0.5, 1.0, 1.0))
            made.append((round(random.uniform(0, seconds), 3), name, target, lasting, amount))
        return made

    def of_kind(self, name: str, seconds: float) -> list[Drawn]:
        """Faults of a kind that is drawn apart."""
        random, kind = self._random, KINDS[name]
        number = random.choice((1, 2, 5, 10))
        return [
            (
                round(random.uniform(0, seconds), 3),
                name,
                str(random.randrange(4)) if kind.target == GROUP else "",
                random.choice(kind.seconds or (0.0,)),
                random.choice(kind.amounts or (0,)),
            )
            for _ in range(number)
        ]

    def _target(self, kind: Kind, servers: Sequence[tuple[str, ...]], triggers: Sequence[str]) -> str:
        random = self._random
        if kind.target == SERVER:
            return random.choice(sorted({name for names in servers for name in names}))
        if kind.target == TRIGGER:
            return random.choice(triggers)
        return str(random.randrange(8)) if kind.target == SENDER else ""
