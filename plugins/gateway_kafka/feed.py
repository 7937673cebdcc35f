"""One trigger's place in a topic: a consumer group (`gateway_core.interfaces.Feed`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gateway_core.component import BuildContext
from gateway_core.errors import Refused
from gateway_core.event import Event
from gateway_core.interfaces import Filter, Outcome

from . import connect
from .client import Partition, Record
from .config import KafkaChannelConfig
from .flow import Flow
from .foreign import wrap
from .records import reader

CHUNK = 64


class KafkaFeed:
    """Offers the topic's events to a subscription."""

    def __init__(
        self,
        group: str,
        topic: str,
        filter: Filter,
        offer: Callable[[Event], bool],
        reject: Callable[[Event, Outcome], None] | None,
        withdraw: Callable[[int], Sequence[int]] | None,
        options: KafkaChannelConfig,
        context: BuildContext,
    ) -> None:
        self.group = group
        self._matches = filter.matches
        self._now = context.clock.now_ns
        self._offer = offer
        self._reject = reject
        self._withdraw = withdraw
        self.flow = Flow(
            self,
            reader(options.codec, context),
            context.clock,
            commit_interval_s=options.commit_interval_s,
            drain_s=options.drain_s,
            lane_of=_number,
            chunk=CHUNK,
        )
        self.flow.consumer = connect.consumer(
            options,
            group=group,
            topics=[topic],
            member=self.flow,
            max_poll_records=options.max_poll_records,
            session_timeout_s=options.session_timeout_s,
            clock=context.clock,
        )
        self.ack = self.flow.settle
        self.resume = self.flow.resume
        self.lag = self.flow.lag
        self.close = self.flow.close

    # -- what the flow hands over -----------------------------------------------------------------------------------

    def take(self, events: Sequence[Event]) -> int:
        """See `flow.Taker`."""
        for count, event in enumerate(events):
            if not self._matches(event):
                self.flow.settle(event.position)
            elif not self._offer(event):
                return count
        return len(events)

    def refuse(self, record: Record, partition: Partition, position: int, error: Refused) -> None:
        """A record without an event, written by someone else: into the trigger's dead letter as it is."""
        if self._reject is None:
            self.flow.settle(position)
            return
        event = wrap(record, partition, received_ns=self._now())
        event.trace = error.trace
        event.position = position
        self._reject(event, Outcome(False, reason=error.detail))

    def withdraw(self, lane: int) -> Sequence[int]:
        return self._withdraw(lane) if self._withdraw else ()


def _number(partition: Partition) -> int:
    return partition[1]
