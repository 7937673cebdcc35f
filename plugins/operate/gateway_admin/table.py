"""The routes that read and change resources. They are loaded when somebody asks for one."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import anyio
from anyio import to_thread
from gateway_api.routes import Answer, Request, Route, encoded, fault_document
from gateway_serving.slices import chunks

from . import documents, models
from .context import AdminContext, control_of
from .control import Control
from .paging import QUERY as PAGING
from .paging import paged
from .preconditions import Preconditions
from .resources import Resources
from .watching import NO_STORE

_V1 = "/api/v1"
_WHAT = {
    "brokers": models.BrokerList,
    "triggers": models.TriggerList,
    "bridges": models.BridgeList,
    "policies": models.PolicyList,
}
_ONE = {"brokers": models.Broker, "triggers": models.Trigger, "bridges": models.Bridge, "policies": models.Policy}
_BODY = "A trigger as the section `triggers` has it, or a Knative manifest of `kind: Trigger`; YAML or JSON."
_BODIES = "One or several triggers: a section `triggers`, or Knative manifests of `kind: Trigger`; YAML or JSON."
_REFUSED = (409, 422, 503, 507)


def control_routes(service: AdminContext) -> list[Route]:
    """Routes to read and change resources."""
    resources = Resources(service)
    return [*(route for section in _WHAT for route in _reading(resources, section)), *_changing(service, resources)]


def _reading(resources: Resources, section: str) -> list[Route]:
    async def everything(request: Request) -> Answer:
        names, more = paged(request, resources.names(section), str)
        pieces = encoded({"items": []}, "items", resources.some(section, names))
        return Answer(chunks=await chunks(pieces), headers={**NO_STORE, **more})

    def single(request: Request) -> Answer:
        return one(resources, section, request.params["name"])

    path = f"{_V1}/{section}"
    return [
        Route(
            "GET",
            path,
            everything,
            f"All {section}, sorted by name",
            {200: _WHAT[section]},
            problems=[400],
            query=PAGING,
            role="viewer",
        ),
        Route(
            "GET",
            f"{path}/{{name}}",
            single,
            f"One of the {section}",
            {200: _ONE[section]},
            problems=[404],
            role="viewer",
        ),
    ]


def one(resources: Resources, section: str, name: str, status: int = 200) -> Answer:
    """A resource with its entity tag."""
    document = resources.get(section, name)
    return Answer(document, status, {**NO_STORE, "etag": resources.tag(section, name)})


def _changing(service: AdminContext, resources: Resources) -> list[Route]:
    registry = service.gateway.registry

    def control() -> Control:
        return control_of(service)

    def check(request: Request) -> Callable[[], None]:
        return Preconditions(resources, request.params["name"], request.headers)

    one_body = anyio.CapacityLimiter(1)

    async def parsed(read: Callable[..., documents.Triggers], *arguments: Any) -> documents.Triggers:
        """Reads a body in a thread: some take the parser for YAML 1.2 a minute, while events must keep flowing."""
        return await to_thread.run_sync(read, *arguments, limiter=one_body)

    async def put(request: Request) -> Answer:
        name = request.params["name"]
        wanted = await parsed(documents.entry, request, name, registry, os.environ, control().permits)
        results, _ = await control().apply(wanted, check(request))
        answer = one(resources, "triggers", name, 201 if results[name] == "created" else 200)
        return replace(answer, facts={"triggers": results})

    async def apply(request: Request) -> Answer:
        wanted = await parsed(documents.entries, request, registry, os.environ, control().permits)
        results, warnings = await control().apply(wanted)
        told = [{"name": name, "result": result} for name, result in results.items()]
        document = {"triggers": told, "warnings": [fault_document(w) for w in warnings]}
        return Answer(document, headers=NO_STORE, facts={"triggers": results})

    async def delete(request: Request) -> Answer:
        await control().delete(request.params["name"], check(request))
        return Answer(status=204)

    def pausing(paused: bool) -> Callable[[Request], Awaitable[Answer]]:
        async def answer(request: Request) -> Answer:
            await control().pause(request.params["name"], paused, check(request))
            return one(resources, "triggers", request.params["name"])

        return answer

    async def reload(request: Request) -> Answer:
        await control().reload()
        return Answer({"generation": service.gateway.status().config.generation}, headers=NO_STORE)

    trigger = f"{_V1}/triggers/{{name}}"
    some = {200: models.Trigger}
    there = (404, 412, *_REFUSED)
    return [
        Route(
            "PUT",
            trigger,
            put,
            "Create or change a trigger",
            {200: models.Trigger, 201: models.Trigger},
            problems=[412, *_REFUSED],
            body=_BODY,
            role="admin",
            action="trigger.apply",
        ),
        Route(
            "DELETE",
            trigger,
            delete,
            "Delete a trigger that was applied",
            {204: None},
            problems=there,
            role="admin",
            action="trigger.delete",
        ),
        Route(
            "POST",
            f"{trigger}/pause",
            pausing(True),
            "Pause a trigger",
            some,
            problems=there,
            role="operator",
            action="trigger.pause",
        ),
        Route(
            "POST",
            f"{trigger}/resume",
            pausing(False),
            "Resume a trigger",
            some,
            problems=there,
            role="operator",
            action="trigger.resume",
        ),
        Route(
            "POST",
            f"{_V1}/apply",
            apply,
            "Create or change triggers, all or none",
            {200: models.ApplyResult},
            problems=_REFUSED,
            body=_BODIES,
            role="admin",
            action="trigger.apply",
        ),
        Route(
            "POST",
            f"{_V1}/reload",
            reload,
            "Read the config again",
            {200: models.ReloadResult},
            problems=_REFUSED,
            role="operator",
            action="config.reload",
        ),
    ]
