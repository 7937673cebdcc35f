"""The admin API as a service of a gateway: the first worker serves it for all workers."""

from __future__ import annotations

import errno
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup
from gateway_api.discovery import announce, listen, socket_path, withdraw
from gateway_api.routes import Route, ServiceRoutes
from gateway_api.tokens import Tokens
from gateway_audit_log.log import audit_log
from gateway_serving.slices import finished
from gateway_serving.unexpected import log_unexpected

from gateway_core.contract.component import BuildContext
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.errors import ConfigError, Fault, StartError
from gateway_core.contract.loaded import Loaded
from gateway_core.contract.private_files import keep_private, no_room
from gateway_core.contract.services import GatewayView, RunningService

from .applied import Applied, applied_dir
from .conditions import Conditions
from .generations import Generations
from .operators import AdminCallers, Operators
from .operators_config import SECTION as OPERATORS
from .own_metrics import declared
from .permits import permits_of
from .server import Admin
from .stored import NOT_ALLOWED, stored_faults

if TYPE_CHECKING:
    from .control import Control

log = logging.getLogger("tidegate")


class AdminService(RunningService):
    """Listens on a socket in the data directory and, unless `admin` is "socket" or "off", on an address."""

    def __init__(self, gateway: GatewayView) -> None:
        self.gateway = gateway
        self.generations = Generations(gateway.config)
        self.conditions = Conditions(gateway, self.generations, gateway.clock)
        self.audit = audit_log(gateway.data_dir, gateway.worker)
        own = gateway.settings.admin_token
        self.tokens = Tokens(gateway.data_dir, own.get_secret_value() if own else "")
        self.callers = AdminCallers(self.tokens)
        self._operators: Any = {}
        self._tasks: TaskGroup | None = None
        self._renewing = anyio.Lock()
        self._applied = Applied(applied_dir(gateway.settings))
        self._control: Control | None = None
        self._admin: Admin | None = None
        self._addresses: dict[str, str] = {}
        self._announces = False

    @property
    def control(self) -> Control | None:
        """Changes the gateway; None if it has no config files, never reloads, or lacks the plugin for it."""
        reloader = self.gateway.reloader
        if self._control is None and reloader is not None and reloader.enabled:
            from .control import Control

            self._control = Control(self.gateway, reloader, self._applied, self.generations)
        return self._control

    def load(self) -> None:
        from . import openapi, table  # noqa: F401

    def routes(self) -> Sequence[Route]:
        from .table import control_routes

        return control_routes(self)

    def addresses(self) -> Mapping[str, str]:
        """By "admin" and "socket"."""
        return self._addresses

    async def start(self, tasks: TaskGroup) -> None:
        gateway = self.gateway
        self.gateway.pause(self._applied.paused())
        if gateway.read is not None and (faults := self._stored_faults(gateway.read)):
            raise ConfigError([Fault(NOT_ALLOWED), *faults])  # until the config changes, each start would end so
        if gateway.worker != 0:
            return
        self._announces = True
        keep_private(self._applied.folder)
        if gateway.settings.admin == "off":
            return
        self._admin = await self._made()
        if gateway.settings.admin != "socket":
            self.tokens.refresh()
            self._tasks = tasks
            self._operators = gateway.config.section(OPERATORS)
            self.callers.operators = await self._started(tasks)
        await self._open(self._admin, tasks)
        tasks.start_soon(self.conditions.watch)

    async def _started(self, tasks: TaskGroup) -> Operators | None:
        """The operators of the config, ready. Raises `StartError`."""
        if not self._operators:
            return None
        gateway = self.gateway
        context = BuildContext(OPERATORS, gateway.data_dir, gateway.clock, gateway.registry, gateway.worker)
        operators = Operators(self._operators, context)
        try:
            await operators.start(tasks)
        except BaseException:
            await operators.stop()
            raise
        return operators

    async def _renew(self, tasks: TaskGroup) -> None:
        """Takes the operators of another config. If they can't be started, there are none until the next reload. Of
        several reloads the last one counts, however long the issuers of the others took."""
        callers = self.callers
        before, callers.operators = callers.operators, None
        callers.renewing += 1
        try:
            if before is not None:
                await before.stop()
            async with self._renewing:
                if callers.operators is None:
                    callers.operators = await self._fresh(tasks)
        finally:
            callers.renewing -= 1

    async def _fresh(self, tasks: TaskGroup) -> Operators | None:
        """The operators of the config, None if they can't be started or if there is a newer config."""
        wanted = self._operators
        try:
            fresh = await self._started(tasks)
        except (ConfigError, StartError) as e:
            log.error("no operator of the config can call the admin API: %s", e)
            return None
        except Exception as e:  # of a plugin: the gateway keeps running
            log_unexpected(log, "starting the operators of the config: none of them can call the admin API", e)
            return None
        if wanted is self._operators or fresh is None:
            return fresh
        await fresh.stop()
        return None

    def _stored_faults(self, loaded: Loaded) -> list[Fault]:
        return stored_faults(loaded, self._applied, permits_of(loaded.config, self.gateway.data_dir))

    async def _made(self) -> Admin:
        """The server. Raises `StartError` if one of its routes would hide another."""
        gateway, settings, routes = self.gateway, self.gateway.settings, ServiceRoutes(self.gateway)
        admin = Admin(
            lambda: finished(gateway.status_in_steps()),
            lambda: gateway.ready,
            started=lambda: gateway.started,
            with_metrics=settings.metrics,
            own_metrics=declared(offer.component for offer in gateway.registry.offers()),
            more=routes.loaded,
            load=routes.all,
            callers=self.callers,
            names=[name for name in settings.admin_hosts.split(",") if name.strip()],
            audit=self.audit,
        )
        await routes.check(admin.watching)
        return admin

    async def _open(self, admin: Admin, tasks: TaskGroup) -> None:
        """Opens the socket in the data directory first, which can't collide with another gateway's. After that, a
        default address in use is only a warning, but a configured one is an error."""
        gateway = self.gateway
        address, named = gateway.settings.admin, "admin" in gateway.settings.model_fields_set
        folder = gateway.data_dir
        try:
            await admin.start_local(listen(folder), tasks)
            self._addresses["socket"] = str(socket_path(folder))
        except OSError as e:
            if address == "socket" and not no_room(e):
                raise StartError(f"admin: can't listen in {folder}: {e.strerror or e}") from e
            log.warning("no socket of the admin API in %s: %s", folder, e.strerror or e)
        if address == "socket":
            return
        try:
            self._addresses = {
                "admin": await admin.start(address, tasks, gateway.settings.admin_tls),
                **self._addresses,
            }
        except StartError as e:
            taken = isinstance(e.__cause__, OSError) and e.__cause__.errno == errno.EADDRINUSE
            if named or not taken or "socket" not in self._addresses:
                raise
            log.warning("%s. The admin API is only available at %s", e, self._addresses["socket"])

    async def stop(self) -> None:
        if self._admin is not None:
            await self._admin.stop()
        if self.callers.operators is not None:
            await self.callers.operators.stop()
        self.audit.close()
        if self._announces:
            withdraw(self.gateway.data_dir)

    def reloading(self, loaded: Loaded) -> None:
        if faults := self._stored_faults(loaded):
            raise ConfigError(faults)
        self.gateway.pause(self._applied.paused())

    def wanted(self, config: GatewayConfig) -> None:
        self.generations.want(config)

    def reached(self, wanted: GatewayConfig) -> None:
        self.generations.reach(wanted, self.gateway.config)
        self.conditions.observe_all()
        gateway = self.gateway
        if self._tasks is not None and (found := gateway.config.section(OPERATORS)) != self._operators:
            self._operators = found
            self._tasks.start_soon(self._renew, self._tasks)
        if self._announces:
            announce(gateway.data_dir, {"pid": gateway.pid, **gateway.addresses, "ingress": gateway.ingress})

    def changed(self) -> None:
        self.conditions.observe_all()
