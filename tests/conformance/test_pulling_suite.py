"""`PullingSourceSuite`, on a source that is right, and on one with planted faults: each fails the tests about it."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
from gateway_testing.suites import Kit, PullingSourceSuite, SourceRemote
from gateway_testing.suites.kit import patience

from gateway_core.contract.clock import Clock, SystemClock
from gateway_core.contract.component import BuildContext, CodecRef
from gateway_core.contract.errors import StorageError
from gateway_core.contract.interfaces import Source
from tests.conformance.little_queue import Queue, QueueConfig, QueueSource
from tests.delivery.gateway_rig import Hurried

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("real_time")]


@pytest.mark.spec("TR-02")
class TestQueueSource(PullingSourceSuite):
    fault = ""
    clock: Clock = SystemClock()

    def remote(self, kit: Kit) -> SourceRemote:
        return Queue()

    def build(self, kit: Kit, remote: Any, **options: Any) -> Source:
        if codec := options.pop("codec", None):
            options["codec"] = CodecRef(codec)
        context = BuildContext("test", kit.folder, self.clock, kit.registry, kit.worker, kit.workers)
        return QueueSource(remote, QueueConfig(**options), context, self.fault)


FAULTS: dict[str, list[str]] = {
    "acknowledges at once": ["it_acknowledges_only_what_is_safe", "what_was_not_acknowledged_comes_again"],
    "never acknowledges": ["what_was_acknowledged_does_not_come_again"],
    "acknowledges what failed": ["it_offers_again_what_could_not_be_taken"],
    "tries once": ["it_offers_again_what_could_not_be_taken"],
    "gives up what is refused": ["what_is_never_taken_goes_to_the_dead_letter_and_the_rest_goes_on"],
    "turns groups round": ["they_come_in_order_even_if_some_had_to_wait"],
    "keeps old numbers": ["a_late_answer_settles_nothing_of_a_new_connection"],
    "never reconnects": ["it_reconnects"],
    "needs the remote side to start": ["it_starts_while_the_remote_side_is_away"],
    "hides outages": ["it_reconnects", "it_starts_while_the_remote_side_is_away"],
    "never ends": ["a_stop_ends_while_the_intake_has_no_room"],
    "waits for the queue at its end": ["a_stop_ends_while_the_remote_side_is_away"],
    "answers nobody at a stop": ["a_stop_answers_what_was_taken"],
    "goes on after a stop": ["after_a_stop_nothing_is_taken"],
    "forgets the time": ["it_takes_events_as_they_are"],
    "stands still at nonsense": ["much_nonsense_holds_up_nothing"],
    "writes every nonsense to the log": ["much_nonsense_holds_up_nothing"],
    "acknowledges nonsense at once": ["nonsense_is_kept_until_the_dead_letter_has_it"],
    "dies of a codec": ["a_codec_that_raises_costs_one_event"],
    "every worker gets all": ["it_works_in_every_worker_or_in_one"],
}


@pytest.mark.spec("TR-03")
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_planted_fault_is_found(fault: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    suite = TestQueueSource()
    suite.fault, suite.clock = fault, Hurried()
    for name in FAULTS[fault]:
        test = getattr(suite, f"test_{name}")
        folder = tmp_path / name
        folder.mkdir()
        with patience(0.4), pytest.raises((AssertionError, BaseExceptionGroup)):
            await test(Kit(folder), **_arguments(test, caplog))


def test_each_test_finds_a_fault() -> None:
    tests = {name.removeprefix("test_") for name in dir(PullingSourceSuite) if name.startswith("test_")}
    assert tests == {name for found in FAULTS.values() for name in found}


def _arguments(test: Any, caplog: pytest.LogCaptureFixture) -> dict[str, Any]:
    """The arguments of a test besides the kit."""
    caplog.clear()
    values = {"caplog": caplog, "error": StorageError("the disk is full"), "stores": True}
    return {name: value for name, value in values.items() if name in inspect.signature(test).parameters}
