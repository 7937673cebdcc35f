"""Whatever a subscriber and a dead letter answer, and whatever is withdrawn: events with one key keep their order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway_core.contract.event import Event
from gateway_core.contract.interfaces import DELIVERED, Outcome
from gateway_core.delivery.deliveries import OrderKeyOf, of_key, of_partition
from tests.budget import examples
from tests.delivery.order_rig import BAD, BUSY, Rig, event, number

ORDERS: dict[str, OrderKeyOf | None] = {"unordered": None, "partition": of_partition, "key": of_key}
OUTCOMES = {"ok": DELIVERED, "busy": BUSY, "bad": BAD, "reply": Outcome(True, reply=event(0))}
STEPS = st.tuples(
    st.sampled_from(["offer", "answer", "answer", "answer", "letter", "time", "published", "withdraw"]),
    st.integers(0, 2),
    st.sampled_from(sorted(OUTCOMES)),
    st.sampled_from(["a", "b", None]),
)


class Checked(Rig):
    """Knows of each event whether it is settled or withdrawn, and checks each attempt by that."""

    def __init__(self, order: str, retry: int, most: int, endless: bool) -> None:
        super().__init__(ORDERS[order], endless=endless, retry=retry, max_in_flight=most, backoff_max_s=1)
        self.order_key_of = ORDERS[order] or (lambda event: None)
        self.most = most
        self.offered: dict[int, Event] = {}
        self.gone: set[int] = set()
        self.wrong: list[str] = []
        self.withdrawing = False
        self.meanwhile: list[int] = []  # sent while a partition is withdrawn
        self.sink.check = self._check

    def _check(self, n: int) -> None:
        """Only remembers: what a sink raises is a failed delivery."""
        if self.withdrawing:
            self.meanwhile.append(n)
            return
        if n in self.over or n in self.under_way:
            self.wrong.append(f"{n} is sent again")
        if before := self._before(n):
            self.wrong.append(f"{n} is sent before {before}")
        if self.subscription.blocked or len(self.under_way) >= self.most:
            self.wrong.append(f"{n} is sent although it must wait")

    @property
    def over(self) -> set[int]:
        return self.gone | set(self.acked)

    def _before(self, n: int) -> list[int]:
        """Events with the same order key that must be settled first."""
        order_key, over = self.order_key_of(self.offered[n]), self.over
        before = [] if order_key is None else [o for o in self.offered if o < n and o not in over]
        return [o for o in before if self.order_key_of(self.offered[o]) == order_key]

    def step(self, what: str, n: int, outcome: str, key: str | None) -> None:
        if what == "offer":
            e = event(len(self.offered) + 1, n, key)
            self.offered[number(e.position)] = e
            self.offer(e)
        elif what == "answer" and self.under_way:
            self.sink.answer(self.under_way[n % len(self.under_way)], OUTCOMES[outcome])
        elif what == "letter" and self.letters.under_way:
            of = sorted(self.letters.under_way)
            self.letters.answer(of[n % len(of)], DELIVERED if outcome == "ok" else BUSY)
        elif what == "time":
            self.clock.advance(n / 2)
        elif what == "published" and self.published:
            self.published.pop()(None if n else RuntimeError("disk full"))
        elif what == "withdraw":
            self._withdraw(n)

    def _withdraw(self, partition: int) -> None:
        self.withdrawing = True
        withdrawn = set(self.withdraw(partition))
        self.withdrawing = False
        assert not withdrawn & {*self.under_way, *self.letters.under_way, *self.over}
        self.gone |= withdrawn
        started, self.meanwhile = self.meanwhile, []
        self.wrong += [f"{n} is sent before {self._before(n)}" for n in started if n in self.over or self._before(n)]

    def finish(self) -> None:
        for _ in range(10_000):
            if self.subscription.held == 0:
                return
            for n in list(self.under_way):
                self.sink.answer(n)
            for n in list(self.letters.under_way):
                self.letters.answer(n)
            while self.published:
                self.published.pop()(None)
            self.clock.advance(1)


@pytest.mark.slow
@examples(60)
@given(
    order=st.sampled_from(sorted(ORDERS)),
    retry=st.integers(0, 2),
    most=st.integers(1, 8),
    endless=st.booleans(),
    steps=st.lists(STEPS, min_size=10, max_size=40),
)
def test_order_keys_keep_their_order_and_every_event_is_settled_or_withdrawn_once(
    order: str, retry: int, most: int, endless: bool, steps: list[tuple[str, int, str, str | None]]
) -> None:
    rig = Checked(order, retry, most, endless)
    for n in range(6):
        rig.step("offer", n % 3, "", "ab"[n % 2])
    for step in steps:
        rig.step(*step)
    rig.finish()
    assert rig.wrong == []
    assert rig.nothing_left()
    assert sorted([*rig.acked, *rig.gone]) == sorted(rig.offered)
