"""What `tidegate check --connect` tries. Nothing is written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import anyio
from redis.exceptions import NoPermissionError, RedisClusterException, RedisError, ResponseError

from gateway_core.contract.errors import StartError

from . import faults
from .client import Client, client, close, pairs
from .connection_config import RedisConfig

T = TypeVar("T")


def check_streams(config: RedisConfig, streams: Sequence[str], limit_s: float) -> None:
    """Connects, and looks at the streams, which need not exist. Raises `OSError` with the reason in one line."""

    async def ask(redis: Client) -> None:
        await redis.execute_command("PING")
        for stream in streams:
            await _is_stream(redis, stream)

    _asked(config, limit_s, ask)


async def _is_stream(redis: Client, stream: str) -> None:
    try:
        await redis.execute_command("XLEN", stream)
    except NoPermissionError as e:
        raise OSError(f"the stream {stream}: {faults.words(e)}") from e
    except ResponseError as e:
        if not str(e).startswith("WRONGTYPE"):
            raise
        raise OSError(f"the key {stream} is not a stream") from e


def _asked(config: RedisConfig, limit_s: float, ask: Callable[[Client], Awaitable[T]]) -> T:
    async def run() -> T:
        redis = client(config, "redis")
        try:
            with anyio.fail_after(limit_s):
                return await ask(redis)
        finally:
            with anyio.CancelScope(shield=True):
                await close(redis)

    try:
        return anyio.run(run)
    except TimeoutError:
        raise OSError(f"no answer within {limit_s:g} s") from None
    except (RedisError, RedisClusterException) as e:
        raise OSError(faults.words(e)) from e
    except StartError as e:
        raise OSError(str(e)) from e


def risk(config: RedisConfig, limit_s: float) -> str:
    """What a crash of the server would lose; "" if nothing, or if it does not say. Raises `OSError`."""

    async def ask(redis: Client) -> str:
        try:
            facts = await redis.execute_command("INFO", "persistence")
        except NoPermissionError:
            return ""
        if isinstance(facts, dict) and facts.get("aof_enabled") == 0:
            return "appendonly is off: a crash of the server loses entries that were delivered to it"
        return ""

    return _asked(config, limit_s, ask)


MOST_COUNTED = 10_000
LATELY_MS = 5_000
"""A consumer that has asked the server within this time still reads: a source asks every two seconds."""


def group_contents(config: RedisConfig, stream: str, group: str, limit_s: float) -> tuple[int, str]:
    """How many entries wait for a group, with those that are not acknowledged (at most, if there are many and the
    server does not tell), and the consumers that read lately. Raises `OSError` with the reason."""

    async def ask(redis: Client) -> tuple[int, str]:
        try:
            groups = [pairs(each) for each in await redis.execute_command("XINFO GROUPS", stream)]
            consumers = [pairs(each) for each in await redis.execute_command("XINFO CONSUMERS", stream, group)]
        except ResponseError as e:
            if "no such key" in str(e) or "NOGROUP" in str(e):
                return 0, ""
            raise
        facts = next((each for each in groups if each[b"name"] == group.encode()), None)
        if facts is None:
            return 0, ""
        lag = facts.get(b"lag")
        if lag is None:  # before Redis 7, or the group began in the middle
            last = facts[b"last-delivered-id"].decode()
            after = await redis.execute_command("XRANGE", stream, f"({last}", "+", "COUNT", MOST_COUNTED)
            lag = len(after) if len(after) < MOST_COUNTED else int(await redis.execute_command("XLEN", stream))
        waiting = int(lag) + int(facts[b"pending"])
        names = sorted(each[b"name"].decode(errors="replace") for each in consumers if each[b"idle"] < LATELY_MS)
        return waiting, f"consumer {', '.join(names)}" if names else ""

    return _asked(config, limit_s, ask)


def destroy_group(config: RedisConfig, stream: str, group: str, limit_s: float) -> None:
    """Removes a consumer group from a stream. One that is not there is none. Raises `OSError` with the reason."""

    async def ask(redis: Client) -> None:
        try:
            await redis.execute_command("XGROUP DESTROY", stream, group)
        except ResponseError as e:
            if "requires the key to exist" not in str(e):
                raise

    _asked(config, limit_s, ask)
