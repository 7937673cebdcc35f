"""What a command says of a running gateway above everything else."""

from __future__ import annotations

from gateway_core.contract.status import GatewayStatus


def headline(status: GatewayStatus) -> str:
    """One line about the process, and the errors of its config if there are any."""
    ready = "ready" if status.ready else "NOT READY"
    workers = f", {status.workers} workers" if status.workers > 1 else ""
    line = f"tidegate {status.version}  {ready}  pid {status.pid}{workers}  up {span(status.uptime_s)}"
    fault = status.config.error
    lines = [line, f"the config has errors, the previous one is still in force:\n{fault}"] if fault else [line]
    for broker in status.brokers:
        lines += [f"broker {broker.name}: {text}" for text in broker.channel.details.get("faults", {}).values()]
    return "\n".join(lines)


def span(seconds: float) -> str:
    """A time in its two largest units ("3h 20m")."""
    minutes, s = divmod(int(seconds), 60)
    hours, m = divmod(minutes, 60)
    days, h = divmod(hours, 24)
    return f"{days}d {h}h" if days else f"{h}h {m}m" if h else f"{m}m {s}s" if m else f"{s}s"
