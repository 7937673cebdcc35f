"""Declares, or looks for, the queues and exchanges that a config names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pamqp import commands as amqp

from .config import RabbitSinkConfig, RabbitSourceConfig
from .faults import ACCESS_REFUSED, PRECONDITION_FAILED, RabbitFault
from .link import Link
from .session import depth, find_exchange, probe


async def prepare_source(link: Link, options: RabbitSourceConfig) -> None:
    """Declares the queue and its bindings, or checks that it exists. Raises `RabbitFault`."""
    if options.declare:
        declare = amqp.Queue.Declare(0, options.queue, durable=True, arguments=options.queue_arguments)
        what = f"the queue {options.queue!r} is not as configured"
        await _explained(what, lambda: probe(link, declare))
    else:
        await depth(link, options.queue)
    for binding in options.bindings:
        if binding.type is not None:
            await _declare_exchange(link, binding.exchange, binding.type)
        arguments: Any = binding.arguments
        bind = amqp.Queue.Bind(0, options.queue, binding.exchange, binding.routing_key, arguments=arguments)
        await probe(link, bind)


async def prepare_sink(link: Link, options: RabbitSinkConfig) -> None:
    """Declares the exchange, or checks that it exists. Raises `RabbitFault`."""
    if options.exchange_type is not None:
        await _declare_exchange(link, options.exchange, options.exchange_type)
    elif options.exchange:
        await find_exchange(link, options.exchange)


async def _declare_exchange(link: Link, name: str, type: str) -> None:
    declare = amqp.Exchange.Declare(0, name, type, durable=True)
    await _explained(f"the exchange {name!r} is not as configured", lambda: probe(link, declare))


async def _explained(what: str, call: Callable[[], Awaitable[Any]]) -> None:
    try:
        await call()
    except RabbitFault as e:
        if e.code == PRECONDITION_FAILED:
            raise RabbitFault(f"{what}: {e}", e.code, True) from e
        if e.code == ACCESS_REFUSED:
            raise RabbitFault(f"{e} (it needs the permission to configure)", e.code, True) from e
        raise
