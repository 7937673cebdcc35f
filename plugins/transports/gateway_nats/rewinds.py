"""Sets the consumer of a trigger back. A consumer can't be moved, so it is deleted and made again with another start.

What was decided is first written to a file, so that it happens whatever ends in between: without its consumer, a
trigger would start as a new one. The new consumer tells in its description by which rewind it was made. From that,
other gateways that use it learn that they must not take its messages for repeats of those that they settled.
"""

from __future__ import annotations

import json
import logging
import secrets
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from nats.js import JetStreamContext, api
from nats.js.errors import APIError, NotFoundError

from gateway_core.contract.errors import StorageError
from gateway_core.contract.private_files import durable_folder, replace_file

from .streams import began_at, description_of, rewound_by

log = logging.getLogger("tidegate.nats")

_TRIES = 20
_RETRY_S = 0.1


@dataclass(frozen=True, slots=True)
class Decided:
    """A consumer that is made again with this config, of the stream that was made then. `id` names the rewind, `before`
    the one that the consumer had then."""

    stream: str
    created: str
    consumer: str
    id: str
    before: str
    config: dict[str, Any]


async def set_back(js: JetStreamContext, data_dir: Path, stream: str, consumer: str, first: int) -> None:
    """The consumer begins again with this message, or with the first one that is not settled, if that is an earlier
    one. Raises `StorageError`, and what nats-py raises."""
    created = str((await js.stream_info(stream)).created)
    info = await js.consumer_info(stream, consumer)
    start = max(1, min(first, (info.ack_floor.stream_seq if info.ack_floor else 0) + 1))
    id_ = secrets.token_hex(8)
    config = info.config.evolve(
        name=None,
        durable_name=consumer,
        description=description_of(min(began_at(info.config), start), id_),
        deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
        opt_start_seq=start,
        opt_start_time=None,
    )
    decided = Decided(stream, created, consumer, id_, rewound_by(info.config), config.as_dict())
    try:
        await to_thread.run_sync(_write, data_dir, decided)
    except OSError as e:
        raise StorageError(f"that consumer {consumer} goes back can't be written: {e.strerror or e}") from e
    await _do(js, data_dir, decided)


async def finish(js: JetStreamContext, data_dir: Path, stream: str, consumer: str) -> None:
    """Does what was decided and perhaps not done. Raises what nats-py raises."""
    decided = await to_thread.run_sync(_read, data_dir, stream, consumer)
    if decided is not None:
        await _do(js, data_dir, decided)


async def _do(js: JetStreamContext, data_dir: Path, decided: Decided) -> None:
    if str((await js.stream_info(decided.stream)).created) == decided.created:
        await _make_again(js, decided)
    await to_thread.run_sync(_remove, data_dir, decided)


async def _make_again(js: JetStreamContext, decided: Decided) -> None:
    """Others that use the consumer make it again where they were, if they notice first that it is gone."""
    config = api.ConsumerConfig.from_response({**decided.config})
    last: APIError | None = None
    for _ in range(_TRIES):
        try:
            found = await js.consumer_info(decided.stream, decided.consumer)
            if rewound_by(found.config) not in ("", decided.before):
                return
            await js.delete_consumer(decided.stream, decided.consumer)
        except NotFoundError:
            pass
        try:
            await js.add_consumer(decided.stream, config)
        except APIError as e:
            last = e
            await anyio.sleep(_RETRY_S)
    raise last or ConnectionError(f"others keep making the consumer {decided.consumer}")


def _write(data_dir: Path, decided: Decided) -> None:
    path = _file(data_dir, decided.stream, decided.consumer)
    durable_folder(path.parent)
    replace_file(path, json.dumps(asdict(decided)).encode())


def _read(data_dir: Path, stream: str, consumer: str) -> Decided | None:
    path = _file(data_dir, stream, consumer)
    try:
        return Decided(**json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as e:
        log.error("the rewind in %s can't be read, and is not done: %s", path, e)
        return None


def _remove(data_dir: Path, decided: Decided) -> None:
    try:
        _file(data_dir, decided.stream, decided.consumer).unlink(missing_ok=True)
    except OSError as e:  # it is found done at the next start
        log.warning("the rewind of consumer %s is done, and its file stays: %s", decided.consumer, e.strerror or e)


def _file(data_dir: Path, stream: str, consumer: str) -> Path:
    return data_dir / "nats" / "rewinds" / f"{sha256(f'{stream}/{consumer}'.encode()).hexdigest()[:32]}.json"
