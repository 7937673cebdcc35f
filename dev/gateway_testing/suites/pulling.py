"""What every source that fetches its events must do, through outages and restarts.

The rules: `gateway_core.contract.interfaces.Source` and `Intake`, `gateway_core.contract.capabilities.Pulling`.
"""

from __future__ import annotations

import anyio
import pytest

from gateway_core.contract.capabilities import pulls, runs_alone
from gateway_core.contract.errors import Overloaded, StorageError

from ..vectors import same_data, texts
from .faulty_codec import FAULTY_CODEC, RAISES
from .kit import Kit, agrees_with_its_card
from .memory_intake import id_of, ids_of
from .source import EXAMPLES
from .source_remote import BASE, MOMENT_S, SourceRemoteSuite, error_of, names


class PullingSourceSuite(SourceRemoteSuite):
    """Subclass it and write `remote` and `build`:

    class TestMine(PullingSourceSuite):
        def remote(self, kit):
            return MyQueue(kit)

        def build(self, kit, remote, **options):
            return kit.source("mine", {"url": remote.url, "queue": remote.name, **options})

    Every source that a test builds for one `remote` reads the same queue, as the same client: the second one is the
    first one after a restart. Class attributes say what a transport can't do:

    `ordered`     False if events may arrive in another order than they were published.
    `redelivers`  False if the transport delivers at most once: what was not acknowledged is not delivered again.
    `survives`    True if an answer that comes after a reconnect still acknowledges its message (Kafka's offsets do).
    `coded`       False if the source has no option `codec`.
    `both_work`   False if one of two sources that share the events may get all of them.
    """

    pytestmark = pytest.mark.anyio
    ordered = True
    redelivers = True
    survives = False
    coded = True
    both_work = True

    # -- events ------------------------------------------------------------------------------------------------------

    async def test_it_takes_events_as_they_are(self, kit: Kit) -> None:
        async with self.opened(kit) as remote, self.running(kit, remote) as (source, intake):
            assert pulls(source)
            for n, vector in enumerate(EXAMPLES):
                await remote.publish(vector)
                await self.until(lambda n=n: len(intake.events) > n, f"the event {vector.name}")  # type: ignore[misc]
                have = texts(intake.events[n])
                assert {name: have.get(name) for name in vector.event.attributes} == texts(vector.event)
                assert same_data(intake.events[n].data, vector.event.data)
                assert intake.events[n].received_ns > 0
            assert intake.refused == []

    @pytest.mark.parametrize("stores", [True, False], ids=["broker", "bridge"])
    async def test_they_come_in_order_even_if_some_had_to_wait(self, kit: Kit, stores: bool) -> None:
        async with self.opened(kit) as remote, self.running(kit, remote, stores=stores) as (_, intake):
            await self._publish(remote, 0, 10)
            await self._until_safe(intake, 0, 10)
            intake.result = Overloaded("the suite has no room")
            await self._publish(remote, 10, 20)
            await self.until(lambda: len(intake.events) > 10, "an event to be offered")
            intake.result = None
            await self._publish(remote, 20, 25)
            await self._until_safe(intake, 0, 25)
            if self.ordered:
                assert ids_of(intake.safe) == names(0, 25)

    async def test_what_is_never_taken_goes_to_the_dead_letter_and_the_rest_goes_on(self, kit: Kit) -> None:
        async with self.opened(kit) as remote:
            async with self.running(kit, remote) as (_, intake):
                intake.never = {"n2"}
                intake.hold = True  # so that several wait for one answer
                await self._publish(remote, 0, 5)
                await self.until(lambda: len(intake.held) > 0, "an event to be offered")
                intake.release()
                await self._until_safe(intake, 0, 5, without="n2")
                await self.until(lambda: "n2" in ids_of(intake.buried), "the dead letter")
                assert [id_of(event) for event, _, _ in intake.letters] == ["n2"]
                await self._settled(remote, 5)
            assert await self._again(kit, remote) == []

    # -- acknowledgements --------------------------------------------------------------------------------------------

    async def test_it_acknowledges_only_what_is_safe(self, kit: Kit) -> None:
        async with self.opened(kit) as remote:
            async with self.running(kit, remote) as (_, intake):
                intake.hold = True
                await self._publish(remote, 0, 2)
                await self.until(lambda: len(intake.held) > 0, "an event to be offered")
                await anyio.sleep(MOMENT_S)
                assert await remote.acknowledged() in (None, 0), "acknowledged before the event was safe"
                intake.release()
                await self._until_safe(intake, 0, 2)
                await self._settled(remote, 2)
            assert await self._again(kit, remote) == []

    @pytest.mark.parametrize(
        "error", [StorageError("the disk is full"), Overloaded("too much")], ids=["storage", "busy"]
    )
    @pytest.mark.parametrize("stores", [True, False], ids=["broker", "bridge"])
    async def test_it_offers_again_what_could_not_be_taken(self, kit: Kit, error: BaseException, stores: bool) -> None:
        async with self.opened(kit) as remote:
            async with self.running(kit, remote, stores=stores) as (_, intake):
                intake.result = error
                await self._publish(remote, 0, 3)
                await self.until(lambda: len(intake.events) > 0, "an event to be offered")
                await anyio.sleep(MOMENT_S)
                assert await remote.acknowledged() in (None, 0), "acknowledged what the intake did not take"
                assert (intake.refused, intake.letters) == ([], [])
                intake.result = None
                await self._until_safe(intake, 0, 3)
                await self._settled(remote, 3)
            assert await self._again(kit, remote) == []

    async def test_what_was_acknowledged_does_not_come_again(self, kit: Kit) -> None:
        async with self.opened(kit) as remote:
            async with self.running(kit, remote) as (_, intake):
                await self._publish(remote, 0, 10)
                await self._until_safe(intake, 0, 10)
                await self._settled(remote, 10)
            assert await self._again(kit, remote) == []

    async def test_what_was_not_acknowledged_comes_again(self, kit: Kit) -> None:
        async with self.opened(kit) as remote:
            async with self.running(kit, remote) as (_, intake):
                await self._publish(remote, 0, 2)
                await self._until_safe(intake, 0, 2)
                await self._settled(remote, 2)
                intake.hold = True
                await self._publish(remote, 2, 6)
                await self.until(lambda: len(intake.held) > 0, "an event to be offered")
                intake.result = StorageError("the disk is gone")
                intake.release()
            if self.redelivers:
                assert await self._again(kit, remote, names(2, 6)) == names(2, 6)

    # -- outages -----------------------------------------------------------------------------------------------------

    async def test_it_reconnects(self, kit: Kit) -> None:
        async with self.opened(kit) as remote:
            async with self.running(kit, remote) as (source, intake):
                await self._publish(remote, 0, 3)
                await self._until_safe(intake, 0, 3)
                known = await self._settled(remote, 3)
                for n in (3, 6):
                    await self._outage(remote, source)
                    await self._publish(remote, n, n + 3)
                    await self._until_safe(intake, 0, n + 3)
                    await self._settled(remote, n + 3)
                if known:
                    assert sorted(ids_of(intake.safe)) == names(0, 9), "what was acknowledged was delivered again"
            assert await self._again(kit, remote) == []

    async def test_it_starts_while_the_remote_side_is_away(self, kit: Kit) -> None:
        async with self.opened(kit) as remote:
            async with self.running(kit, remote):
                pass  # a subscription may have to be known before events are published
            await remote.leave()
            async with self.running(kit, remote, away=True) as (source, intake):
                assert error_of(source) is not None, "`info` must name the outage as `error`"
                await remote.take()
                await self.ready(source)
                await self._publish(remote, 0, 2)
                await self._until_safe(intake, 0, 2)

    async def test_a_late_answer_settles_nothing_of_a_new_connection(self, kit: Kit) -> None:
        """A redelivered message is another delivery: the answer about the one before says nothing about it."""
        if self.survives or not self.redelivers:
            return
        async with self.opened(kit) as remote:
            async with self.running(kit, remote) as (source, intake):
                intake.hold = True
                await self._publish(remote, 0, 3)
                await self.until(lambda: len(intake.held) > 0, "an event to be offered")
                await self._outage(remote, source)
                intake.release(1)
                await self.until(lambda: ids_of(intake.events).count("n0") > 1, "the first event to be delivered again")
                await anyio.sleep(MOMENT_S)
                assert await remote.acknowledged() in (None, 0), "acknowledged by a late answer"
                intake.result = StorageError("the disk is gone")
                intake.release()
            assert await self._again(kit, remote, names(0, 3)) == names(0, 3)

    # -- the end -----------------------------------------------------------------------------------------------------

    async def test_a_stop_answers_what_was_taken(self, kit: Kit) -> None:
        async with self.opened(kit) as remote:
            async with self.running(kit, remote) as (source, intake), anyio.create_task_group() as tasks:
                intake.hold = True
                await self._publish(remote, 0, 1)
                await self.until(lambda: len(intake.held) > 0, "the event to be offered")
                tasks.start_soon(source.stop)
                await anyio.sleep(MOMENT_S)
                intake.release()
            assert ids_of(intake.safe) == ["n0"]
            assert await self._again(kit, remote) == []

    @pytest.mark.parametrize("stores", [True, False], ids=["broker", "bridge"])
    async def test_a_stop_ends_while_the_intake_has_no_room(self, kit: Kit, stores: bool) -> None:
        async with self.opened(kit) as remote:
            async with self.running(kit, remote, stores=stores) as (_, intake):
                intake.result = Overloaded("the suite has no room")
                await self._publish(remote, 0, 20)
                await self.until(lambda: len(intake.events) > 0, "an event to be offered")
            assert await remote.acknowledged() in (None, 0), "acknowledged what the intake did not take"
            if self.redelivers:
                assert await self._again(kit, remote, names(0, 20)) == names(0, 20)

    async def test_a_stop_ends_while_the_remote_side_is_away(self, kit: Kit) -> None:
        async with self.opened(kit) as remote:
            async with self.running(kit, remote) as (source, intake):
                intake.result = Overloaded("the suite has no room")
                await self._publish(remote, 0, 2)
                await self.until(lambda: len(intake.events) > 0, "an event to be offered")
                await remote.leave()
                await self.until(lambda: error_of(source) is not None, "`info` to name the outage")
            await remote.take()
            if self.redelivers:
                assert await self._again(kit, remote, names(0, 2)) == names(0, 2)

    async def test_after_a_stop_nothing_is_taken(self, kit: Kit) -> None:
        async with self.opened(kit) as remote, self.running(kit, remote) as (source, intake):
            await self._publish(remote, 0, 1)
            await self._until_safe(intake, 0, 1)
            await source.stop()
            await self._publish(remote, 1, 2)
            await anyio.sleep(MOMENT_S)
            assert ids_of(intake.events) == ["n0"]

    # -- workers -----------------------------------------------------------------------------------------------------

    async def test_it_works_in_every_worker_or_in_one(self, kit: Kit) -> None:
        async with self.opened(kit) as remote:
            one, two = self._workers(kit, remote)
            assert agrees_with_its_card(kit, two), "its attributes `pulls` and `shares` say something else"
            alone = runs_alone(one)
            card = kit.built.guarantees if kit.built else None
            if card is not None and card.workers != "one or share":
                assert alone == (card.workers == "one"), "its attributes `pulls` and `shares` say something else"
            if alone:
                return
            async with (
                self.running(kit, remote, source=one) as (_, first),
                self.running(kit, remote, source=two) as (_, second),
            ):
                await self._publish(remote, 0, 40)
                await self.until(lambda: len(first.safe) + len(second.safe) >= 40, "each event in one of two workers")
                assert sorted(ids_of([*first.safe, *second.safe])) == sorted(names(0, 40))
                if self.both_work:
                    assert first.safe, "the second worker got everything"
                    assert second.safe, "the first worker got everything"
                await one.stop()
                seen = len(second.safe)
                await self._publish(remote, 40, 50)
                await self.until(lambda: len(second.safe) >= seen + 10, "all events in the worker that is left")
            assert await self._again(kit, remote) == []

    # -- what nobody should send -------------------------------------------------------------------------------------

    async def test_much_nonsense_holds_up_nothing(self, kit: Kit, caplog: pytest.LogCaptureFixture) -> None:
        async with self.opened(kit) as remote:
            async with self.running(kit, remote) as (_, intake):
                for n in range(20):
                    await remote.nonsense()
                    await self._publish(remote, n, n + 1)
                await self._until_safe(intake, 0, 20)
                await self.until(
                    lambda: len(intake.refused) + len(intake.buried) == 20, "each to be refused or a dead letter"
                )
                await self._settled(remote, 40)
                assert len(caplog.records) < 10, "strangers can fill the log"
            assert await self._again(kit, remote) == []

    async def test_nonsense_is_kept_until_the_dead_letter_has_it(self, kit: Kit) -> None:
        async with self.opened(kit) as remote:
            async with self.running(kit, remote) as (_, intake):
                intake.result = StorageError("the dead letter is unavailable")
                await remote.nonsense()
                await self.until(lambda: len(intake.refused) + len(intake.letters) > 0, "the dead letter")
                if intake.refused:
                    return  # this source drops what is not an event
                await anyio.sleep(MOMENT_S)
                assert await remote.acknowledged() in (None, 0), "acknowledged what the dead letter did not take"
            if self.redelivers:
                async with self.running(kit, remote) as (_, intake):
                    await self.until(lambda: len(intake.buried) == 1, "the nonsense to be delivered again")

    async def test_a_codec_that_raises_costs_one_event(self, kit: Kit) -> None:
        if not self.coded:
            return
        async with self.opened(kit) as remote:
            async with self.running(kit, remote, codec=FAULTY_CODEC) as (_, intake):
                await remote.publish(BASE.with_id(RAISES))
                await self._publish(remote, 0, 1)
                await self._until_safe(intake, 0, 1)
                await self.until(lambda: len(intake.refused) + len(intake.buried) == 1, "a refusal or a dead letter")
                await self._settled(remote, 2)
            assert await self._again(kit, remote) == []
