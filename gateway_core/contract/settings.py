"""Settings of the process: from flags, else from the environment (`TIDEGATE_*`), else the defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """What belongs to the process and not to the routing. `TIDEGATE_DATA_DIR=/var/lib/tidegate` sets `data_dir`."""

    model_config = SettingsConfigDict(env_prefix="TIDEGATE_", extra="ignore")

    data_dir: Path = Path("tidegate-data")
    """Where events, positions and dead letters are kept."""
    admin: str = "127.0.0.1:9080"
    """Address of the admin API (status, health, metrics); "off" for none. Port 0 takes a free one. It also answers at a
    socket in the data directory, `admin.sock`, that commands of the same user find; "socket" means that one only. If
    the default address is taken (by another gateway), a warning says so and only the socket is used."""
    admin_token: SecretStr | None = None
    """The token of admins, who send it to the admin API (`Authorization: Bearer …`). Without it the gateway makes one
    at its first start, in `admin.token` in the data directory. Commands send it, too. See `tidegate admin token`."""
    admin_hosts: str = ""
    """Host names by which callers may address the admin API, separated by commas, beside `localhost` and its addresses;
    `https://NAME` if a proxy serves it with TLS. Other names in `Host` are refused (403): DNS rebinding."""
    admin_tls: Path | None = None
    """Serves the admin API's address with TLS: a folder with `tls.crt` and `tls.key`, as Kubernetes mounts them, or a
    PEM file with the certificate chain and its key. Renewed certificates take effect automatically."""
    metrics: bool = True
    """Measure durations, and serve metrics in Prometheus's text format at `/metrics` of the admin API."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """What is logged to standard error."""
    log_format: Literal["auto", "text", "json"] = "auto"
    """Log lines for people, or as JSON; auto: text on a terminal, else JSON."""
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    """Processes that share the ingress addresses."""
    watchdog_s: Annotated[float, Field(ge=0, le=3600)] = 30.0
    """How long the event loop may stand still, in seconds, before a worker is killed and started again; a single
    process only logs where it hangs. 0 disables the watchdog."""
    reload: Literal["watch", "signal", "off"] = "watch"
    """When the config is read again: when its files change or on SIGHUP, on SIGHUP only, or never."""
    drain_timeout_s: Annotated[float, Field(ge=0, le=3600)] = 20.0
    """How long a stop waits for deliveries under way, in seconds."""
