"""Options of quotas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Self

from pydantic import Field, model_validator

from gateway_core.contract.component import Config
from gateway_core.contract.identity import Identity

from .policy import AllowConfig, Subject, about

PerSecond = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=1 << 40)]


class LimitConfig(Config):
    """Limits of what comes in. Each is unlimited unless it is set."""

    requests_per_s: PerSecond | None = None
    """Requests a second (429)."""
    events_per_s: PerSecond | None = None
    """Events a second (429). The events of a batch count each; a batch is refused or accepted as a whole."""
    bytes_per_s: PerSecond | None = None
    """Bytes of bodies, or of messages over WebSocket, a second, as they arrive (429)."""
    burst_s: Annotated[float, Field(ge=0.001, le=3600, allow_inf_nan=False)] = 1.0
    """How many seconds' worth may come at once after a pause; one request or event always may. A larger request
    could never pass: it is refused with 413."""
    max_event_bytes: Count | None = None
    """Largest event: the bytes of its data and of its attributes' names and values (413)."""
    max_batch: Count | None = None
    """Most events in one request (413)."""

    @property
    def has_rate(self) -> bool:
        """Whether anything is limited by time."""
        return any(rate is not None for rate in (self.requests_per_s, self.events_per_s, self.bytes_per_s))


class OverrideConfig(LimitConfig):
    """Limits of certain senders, in place of `per_identity`."""

    subjects: Annotated[list[Subject], Field(min_length=1)] = Field(alias="from")
    """The senders, as in `allow`: subjects such as `key billing`. `*` at the end stands for any rest; `*` alone is
    every sender with credentials, and `anonymous` each address of senders without."""
    authenticator: str | None = None
    """Which authenticator must have proved the subject, such as `oidc`. By default any."""


def as_entry(config: OverrideConfig) -> AllowConfig:
    """The entry of `allow` that is about the same senders."""
    named = {} if config.authenticator is None else {"authenticator": config.authenticator}
    return AllowConfig.model_validate({"from": config.subjects, **named})


def fitting(config: OverrideConfig) -> Callable[[Identity], bool]:
    """Whether these are the limits of a sender."""
    return about(as_entry(config))


class QuotaConfig(Config):
    """How much may come in here. A request beyond a rate gets 429 with `Retry-After`. Of several workers each has its
    share of each rate."""

    per_identity: LimitConfig = LimitConfig()
    """Limits of each sender. Senders who did not have to prove who they are count by their address (IPv6: by its /64
    network)."""
    overrides: list[OverrideConfig] = []
    """Other limits for certain senders. The first entry that fits counts."""
    total: LimitConfig = LimitConfig()
    """Limits of all senders together."""
    identities: Annotated[int, Field(ge=1, le=100_000)] = 1000
    """The most senders, the most of each override, and the most addresses that are counted separately at the same time.
    Others share the limits of one sender until there is room. Senders whom an override names always have room."""
    failures_per_minute: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] | None = 60
    """How often an address may fail to prove who it is; then its requests get 429 before their credentials are checked,
    so that guessing is slow. Use `null` if all senders come through one proxy."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        every: list[tuple[str, LimitConfig]] = [("per_identity", self.per_identity), ("total", self.total)]
        for name, limits in (*every, *((f"overrides[{i}]", limits) for i, limits in enumerate(self.overrides))):
            if limits.bytes_per_s is not None and limits.bytes_per_s * limits.burst_s < 1:
                raise ValueError(f"`{name}` lets no byte pass: `bytes_per_s` times `burst_s` is less than 1")
            if "burst_s" in limits.model_fields_set and not limits.has_rate:
                raise ValueError(f"`{name}.burst_s` does nothing without a rate, such as `requests_per_s`")
        return self
