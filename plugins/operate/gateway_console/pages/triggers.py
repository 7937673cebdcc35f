"""The pages of triggers: all of them, and each with what happens to its events."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from gateway_admin import documents
from gateway_admin.context import control_of
from gateway_admin.control import Control
from gateway_admin.resources import Resources
from gateway_api.routes import YAML, Answer, Problem, Request, Route
from gateway_api.shown import as_yaml, shown

from gateway_core.contract.status import TriggerStatus

from ..context import Console
from ..diff import lines
from ..explained import explained
from ..failures import failures_of
from ..health import health_of
from ..live import live
from ..page import ROOT, action, fragment, html, page, render, see_other
from ..sparkline import sparkline

_PATH = "/triggers"
_LIST = "triggers.html"
_ONE = "trigger.html"
_MOST_FAILURES = 20
_MOST_LISTED = 200
"""Triggers on one page."""
_NEW = """\
triggers:
  my-trigger:
    broker: {broker}
    filters:
      - exact: {{type: order.created}}
    subscriber: http://127.0.0.1:8000/
"""


def routes(console: Console) -> list[Route]:
    """The list, a page for each, and what its forms do."""
    gateway, registry = console.gateway, console.gateway.registry
    resources = Resources(console.admin)

    def control() -> Control:
        return control_of(console.admin)

    def listed(request: Request) -> dict[str, Any]:
        text, after = (request.asked("search") or "").lower(), request.asked("after") or ""
        status = {trigger.name: trigger for trigger in console.sampler.current.triggers}
        found = [
            rates
            for rates in console.sampler.rates()["triggers"]
            if rates["name"] in status
            and rates["name"] > after
            and text in f"{rates['name']} {rates['broker']}".lower()
        ]
        letters = console.stock.of
        rows = [
            {**rates, "status": status[rates["name"]], "letters": letters(rates["name"])}
            for rates in found[:_MOST_LISTED]
        ]
        more = rows[-1]["name"] if len(found) > len(rows) else ""
        values = {"rows": rows, "search": text, "after": after, "more": more, "health_of": health_of}
        return {"title": "Triggers", **values}

    def show_list(request: Request) -> Answer:
        return html(render(_LIST, request, **listed(request)))

    def list_parts(request: Request) -> dict[str, str]:
        return {"rows": fragment(_LIST, "rows", request, **listed(request))}

    def now(request: Request) -> dict[str, Any]:
        name = request.params["name"]
        sampler = console.sampler
        document = resources.get("triggers", name)
        known = (trigger for trigger in sampler.current.triggers if trigger.name == name)
        status = next(known, TriggerStatus(name=name, broker=""))
        rates = sampler.rates_of("triggers", name)
        charts = [
            ("Delivered per second", sparkline(sampler.series("triggers", name, "delivered", rate=True), "Delivered")),
            ("Failed attempts per second", sparkline(sampler.series("triggers", name, "failed", rate=True), "Failed")),
            (
                "Dead letters per second",
                sparkline(sampler.series("triggers", name, "dead_lettered", rate=True), "Dead"),
            ),
            ("Lag", sparkline(sampler.series("triggers", name, "lag", rate=False), "Lag")),
        ]
        return {
            "title": name,
            "section": "Triggers",
            "name": name,
            "document": document,
            "status": status,
            "rates": rates,
            "charts": charts,
            "health": health_of(status, rates),
            "letters": console.stock.of(name),
            "delays": status.delayed > 0 or view_delays(name),
        }

    def view_delays(name: str) -> bool:
        view = gateway.topology.triggers.get(name)
        return view is not None and view.due_of is not None

    async def values(request: Request) -> dict[str, Any]:
        await console.sampler.ready()
        await console.stock.refresh()
        found = now(request)
        return {**found, "failures": (await failures_of(gateway, found["name"]))[:_MOST_FAILURES]}

    async def show(request: Request) -> Answer:
        found = await values(request)
        origin = found["document"]["metadata"].get("origin")
        more = {
            "origin": origin,
            "spec": as_yaml({"triggers": {found["name"]: found["document"]["spec"]}}),
            "changed": request.asked("changed"),
            "found": None,
        }
        return html(render(_ONE, request, **found, **more))

    async def parts(request: Request) -> dict[str, str]:
        found = await values(request)
        return {name: fragment(_ONE, name, request, **found) for name in ("facts", "charts", "failures")}

    def pausing(paused: bool) -> Any:
        async def answer(request: Request) -> Answer:
            await control().pause(request.params["name"], paused)
            return _back(request.params["name"], "paused" if paused else "resumed")

        return answer

    def tried(request: Request) -> Answer:
        found = explained(request.form.get("event", ""), gateway.topology, trigger=request.params["name"])
        return html(fragment(_ONE, "tried", request, found=found))

    def wanted(request: Request) -> documents.Triggers:
        """The triggers in the form. Raises `Problem`."""
        asked = replace(request, body=request.form.get("text", "").encode(), headers={"content-type": YAML[0]})
        return documents.entries(asked, registry, os.environ, control().permits)

    def show_change(request: Request) -> Answer:
        name = request.asked("name") or ""
        text = _NEW.format(broker=next(iter(gateway.topology.brokers), "default"))
        if name:
            text = as_yaml({"triggers": {name: resources.get("triggers", name)["spec"]}})
        noted = seen([name] if name else [])
        values = {"title": "Apply", "section": "Triggers", "text": text, "planned": None, "seen": noted}
        return html(render("apply.html", request, **values))

    def seen(names: Iterable[str]) -> str:
        """What a form notes of these triggers as they are now: a line for each."""
        return "\n".join(f"{name} {resources.digest('triggers', name)}" for name in names)

    def changed(request: Request) -> list[str]:
        """Which triggers are not what the form has seen."""
        noted = (line.rpartition(" ") for line in request.form.get("seen", "").splitlines() if line)
        return [name for name, _, digest in noted if resources.digest("triggers", name) != digest]

    async def plan(request: Request) -> Answer:
        results, loaded = await control().plan(wanted(request))
        planned = [(name, result, _differences(name, loaded.config)) for name, result in results.items()]
        values = {
            "planned": planned,
            "text": request.form.get("text", ""),
            "warnings": loaded.warnings,
            "changed": changed(request),
            "seen": seen(results),
        }
        return html(fragment("apply.html", "plan", request, **values))

    def _differences(name: str, config: Any) -> Any:
        version = console.admin.generations.get("triggers", name)
        before = as_yaml(shown(version.config)) if version is not None else ""
        return lines(before, as_yaml(shown(config.triggers[name])))

    async def apply(request: Request) -> Answer:
        def check() -> None:
            if names := changed(request):
                text = f"{' and '.join(names)} changed while you looked: nothing was applied; check your change again"
                raise Problem(409, text)

        results, _ = await control().apply(wanted(request), check)
        name = next(iter(results))
        return replace(_back(name, "applied"), facts={"triggers": results})

    async def delete(request: Request) -> Answer:
        await control().delete(request.params["name"])
        return see_other(f"{ROOT}{_PATH}")

    one = f"{_PATH}/{{name}}"
    return [
        page(_PATH, console.apart(show_list), "All triggers"),
        live("/live/triggers", console.apart(list_parts), console.sampler, "Changes of all triggers"),
        page("/apply", show_change, "A form to apply a trigger", role="admin"),
        action("/apply/plan", plan, "What a change would do", role="admin", audit="trigger.plan"),
        action("/apply", apply, "Apply a change", role="admin", audit="trigger.apply"),
        page(one, show, "A trigger"),
        live(f"/live{one}", parts, console.sampler, "Changes of a trigger"),
        action(f"{one}/pause", pausing(True), "Pause", role="operator", audit="trigger.pause"),
        action(f"{one}/resume", pausing(False), "Resume", role="operator", audit="trigger.resume"),
        action(f"{one}/delete", delete, "Delete", role="admin", audit="trigger.delete"),
        action(f"{one}/try", tried, "Whether an event matches", role="viewer"),
    ]


def _back(name: str, changed: str) -> Answer:
    return see_other(f"{ROOT}{_PATH}/{quote(name, safe='')}?changed={changed}")
