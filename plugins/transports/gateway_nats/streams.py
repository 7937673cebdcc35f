"""Streams and consumers: created if there are none, and compared with the config if there are. Nothing is altered."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from gateway_transport.connection import Rejected
from nats.errors import Error as NatsError
from nats.js import JetStreamContext, api
from nats.js.errors import APIError, NotFoundError

from gateway_core.contract.moments import time_ns_of, written
from gateway_core.contract.start_position import EARLIEST, LATEST, StartPosition

from .config import SequenceStart, Start, StreamConfig, TimestampStart

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Missing(ConnectionError):
    """There is no such stream yet. It may come."""


async def ensure_stream(js: JetStreamContext, name: str, wanted: StreamConfig | None) -> api.StreamInfo:
    """The stream's state. It is created if there is none. Raises `Rejected` if it is different from `wanted`, and
    `Missing` if there is none and nothing is wanted."""
    try:
        found = await js.stream_info(name)
    except NotFoundError:
        if wanted is None:
            raise Missing(f"there is no stream {name}") from None
        try:
            return await js.add_stream(_stream(name, wanted))
        except APIError as e:
            if e.err_code != 10058:  # another gateway has made one with this name in the meantime
                raise Rejected(f"the stream {name} can't be created: {e.description}") from e
            found = await js.stream_info(name)
    if wanted is not None:
        _compare(f"the stream {name}", _asked(wanted), _has(found.config))
    return found


def _stream(name: str, wanted: StreamConfig) -> api.StreamConfig:
    return api.StreamConfig(
        name=name,
        subjects=list(wanted.subjects),
        storage=api.StorageType(wanted.storage),
        num_replicas=wanted.replicas,
        retention=api.RetentionPolicy(wanted.retention),
        max_age=wanted.max_age_s or 0,
        max_bytes=wanted.max_bytes or -1,
        max_msgs=wanted.max_messages or -1,
        discard=_discard(wanted),
        duplicate_window=_window(wanted),
    )


def _window(wanted: StreamConfig) -> float:
    """The server accepts no window that is longer than messages live; 0 is its default."""
    return wanted.duplicates_s or min(120.0, wanted.max_age_s or 0)


def _discard(wanted: StreamConfig) -> api.DiscardPolicy:
    return api.DiscardPolicy.OLD if wanted.at_limit == "drop_old" else api.DiscardPolicy.NEW


def _asked(wanted: StreamConfig) -> dict[str, Any]:
    """What the config says, with the defaults, since what is not said has a meaning too. Only the window for repeats
    is the server's own if it is not said."""
    asked: dict[str, Any] = {
        "subjects": sorted(wanted.subjects),
        "storage": wanted.storage,
        "replicas": wanted.replicas,
        "retention": wanted.retention,
        "max_age_s": wanted.max_age_s,
        "max_bytes": wanted.max_bytes,
        "max_messages": wanted.max_messages,
        "at_limit": wanted.at_limit,
    }
    if wanted.duplicates_s is not None:
        asked["duplicates_s"] = wanted.duplicates_s
    return asked


def _has(config: api.StreamConfig) -> dict[str, Any]:
    return {
        "subjects": sorted(config.subjects or []),
        "storage": _text(config.storage),
        "replicas": config.num_replicas,
        "retention": _text(config.retention),
        "max_age_s": config.max_age or None,
        "max_bytes": config.max_bytes if (config.max_bytes or -1) > 0 else None,
        "max_messages": config.max_msgs if (config.max_msgs or -1) > 0 else None,
        "at_limit": "drop_old" if _text(config.discard) == "old" else "refuse_new",
        "duplicates_s": config.duplicate_window,
    }


async def ensure_consumer(
    js: JetStreamContext,
    stream: str,
    name: str,
    *,
    filters: list[str],
    start: StartPosition,
    ack_wait_s: float,
    max_ack_pending: int,
    compare: Callable[[str], bool],
    began: int | None = None,
    late: Callable[[str | None], Awaitable[None]] | None = None,
) -> api.ConsumerInfo:
    """A durable pull consumer. The positions of `start` are sequence numbers of partition 0. `compare` says whether a
    difference in this option is a fault (the config says it) or not (it is a default). With `began` a new consumer
    tells with which message it began (`began_at`): with this one, or, if that is 0, where `start` is. `late` is told
    what the stream had deleted when a new consumer began at a time, None if nothing. Raises `Rejected` if the consumer
    is different."""
    found: api.ConsumerInfo
    try:
        found = await js.consumer_info(stream, name)
    except NotFoundError:
        try:
            state = (await js.stream_info(stream)).state
        except NotFoundError:
            raise Missing(f"there is no stream {stream}") from None
        if began == 0 and start == LATEST:
            began = state.last_seq + 1
            start = StartPosition.at_positions({0: began})
        first = _start(start, state)
        config = api.ConsumerConfig(
            durable_name=name,
            description=description_of(began or 0) or None,
            ack_policy=api.AckPolicy.EXPLICIT,
            ack_wait=ack_wait_s,
            max_ack_pending=max_ack_pending,
            filter_subject=filters[0] if len(filters) == 1 else None,
            filter_subjects=filters if len(filters) > 1 else None,
            **first,
        )
        try:
            made = await js.add_consumer(stream, config)
            if late is not None:
                await late(await _gone(js, stream, start, state))
            return made
        except NotFoundError:
            raise Missing(f"there is no stream {stream}") from None
        except APIError as e:
            if e.err_code not in (10013, 10148):  # another worker has made it in the meantime
                raise Rejected(f"the consumer {name} of the stream {stream} can't be created: {e.description}") from e
            found = await js.consumer_info(stream, name)
    has = found.config
    what = f"the consumer {name} of the stream {stream}"
    if has.deliver_subject:
        raise Rejected(f"{what} is a push consumer; a gateway needs a pull consumer: choose another name")
    asked: dict[str, Any] = {"ack_policy": "explicit", "subject": sorted(filters)}
    have = {
        "ack_policy": _text(has.ack_policy),
        "subject": sorted(has.filter_subjects or ([has.filter_subject] if has.filter_subject else [])) or [">"],
        "ack_wait_s": has.ack_wait,
        "max_in_flight": has.max_ack_pending,
    }
    given = {"ack_wait_s": ack_wait_s, "max_in_flight": max_ack_pending}
    asked |= {option: value for option, value in given.items() if compare(option)}
    _compare(what, asked, have)
    return found


async def _gone(js: JetStreamContext, stream: str, start: StartPosition, state: api.StreamState) -> str | None:
    """What the stream has deleted since a start at a time; None if nothing."""
    if start.kind != "time" or state.first_seq <= 1:
        return None
    asked = f"it should begin at {written(start.time_ns)}, but"
    try:
        oldest = (await js.get_msg(stream, seq=state.first_seq)).time
    except (NatsError, TimeoutError):  # an empty stream, or one that deleted it just now
        return f"{asked} the stream {stream} had deleted all that it once had"
    if oldest is None or oldest <= _EPOCH + timedelta(microseconds=start.time_ns // 1000):
        return None
    at = written((oldest - _EPOCH) // timedelta(microseconds=1) * 1000)
    return f"{asked} the stream {stream} had kept nothing before {at}: it began there"


_DESCRIPTION = re.compile(r"(?:began with message (\d+))?(?:, )?(?:set back by rewind ([0-9a-f]+))?")


def description_of(began: int, rewind: str = "") -> str:
    """The description of a consumer: the sequence number of the first message that it was for (0: not known), and the
    id of the rewind that made it."""
    words = [f"began with message {began}"] if began else []
    return ", ".join([*words, f"set back by rewind {rewind}"] if rewind else words)


def began_at(config: api.ConsumerConfig) -> int:
    """The sequence number of the first message that a consumer was for; 0 if it does not tell."""
    found = _DESCRIPTION.fullmatch(config.description or "")
    return int(found[1] or 0) if found else 0


def rewound_by(config: api.ConsumerConfig) -> str:
    """The id of the rewind that made a consumer; "" if none did."""
    found = _DESCRIPTION.fullmatch(config.description or "")
    return (found[2] or "") if found else ""


def start_of(start: Start) -> StartPosition:
    """What a config says."""
    if isinstance(start, TimestampStart):
        return StartPosition.at_time(time_ns_of(start.timestamp))
    if isinstance(start, SequenceStart):
        return StartPosition.at_positions({0: start.sequence})
    return EARLIEST if start == "earliest" else LATEST


def _start(start: StartPosition, stream: api.StreamState) -> dict[str, Any]:
    if start.kind == "time":  # the client writes microseconds
        moment = _EPOCH + timedelta(microseconds=start.time_ns // 1000)
        return {"deliver_policy": api.DeliverPolicy.BY_START_TIME, "opt_start_time": moment}
    if start.kind == "positions":
        # a consumer that begins beyond the end would skip what comes until then
        sequence = start.within(0, max(1, stream.first_seq), stream.last_seq + 1)
        return {"deliver_policy": api.DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": sequence}
    return {"deliver_policy": api.DeliverPolicy.NEW if start.kind == "latest" else api.DeliverPolicy.ALL}


def _compare(what: str, asked: dict[str, Any], has: dict[str, Any]) -> None:
    wrong = [
        f"`{name}` is {_shown(has[name])} and not {_shown(value)}"
        for name, value in asked.items()
        if has[name] != value
    ]
    if wrong:
        raise Rejected(
            f"{what} is not as configured: {', '.join(wrong)}. Change the config or the server; Tidegate alters nothing"
        )


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, float):
        return f"{value:g}"
    return "unlimited" if value is None else str(value)


def _text(value: Any) -> str:
    return str(getattr(value, "value", value))
