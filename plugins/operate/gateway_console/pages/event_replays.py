"""The pages of replays of past events: a form that counts first, those that ran, and how far each is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from gateway_api.routes import Answer, Problem, Request, Route

from gateway_core.contract.moments import moment_ns, written

from ..config import HIDDEN
from ..context import Console
from ..live import live
from ..page import ROOT, action, fragment, html, page, render, see_other

if TYPE_CHECKING:
    from gateway_replay.job import Wanted
    from gateway_replay.jobs import Jobs

_PATH = "/event-replays"
_LIST = "event_replays.html"
_ONE = "event_replay.html"
_FIELDS = {"trigger": "", "from": "1h", "to": "now", "filter": "", "rate": "0"}
_GOOD = {"done": "good", "paused": "warn", "failed": "bad", "cancelled": "warn"}
_MOST = 20


def routes(console: Console) -> list[Route]:
    """The list with its form, a page for each, and what changes them."""
    gateway = console.gateway

    async def jobs() -> Jobs:
        service = gateway.services.get("replay")
        if service is None:
            raise Problem(404, "this gateway has no plugin `replay`")
        from gateway_replay.service import ReplayService

        assert isinstance(service, ReplayService)
        return await service.jobs()

    def wanted_by(given: Any) -> Wanted:
        from gateway_replay.job import Wanted

        now_ns, texts = gateway.clock.now_ns(), {name: given(name) or default for name, default in _FIELDS.items()}
        try:
            from_ns, to_ns = moment_ns(texts["from"], now_ns), moment_ns(texts["to"], now_ns)
            rate = float(texts["rate"])
        except ValueError as e:
            raise Problem(422, str(e)) from e
        filters = (texts["filter"],) if texts["filter"] else ()
        return Wanted(texts["trigger"], from_ns, to_ns, filters, rate, mark=bool(given("mark")))

    async def row(id_: str, request: Request) -> dict[str, Any]:
        from gateway_replay.job import document

        known = await jobs()
        job = known.find(id_)
        state, shown = known.state_of(job), document(job)
        if console.hides.hides_attribute("id", request.role):
            shown["faults"] = [{**fault, "id": HIDDEN} for fault in shown["faults"]]
        if console.hides.hides_some(request.role):  # a filter names values
            shown["filters"] = [HIDDEN for _ in shown["filters"]]
        return {**shown, "state": state, "kind": _GOOD.get(state, ""), "handled": job.handled}

    async def listed(request: Request) -> dict[str, Any]:
        known = [] if "replay" not in gateway.services else [*(await jobs()).known][: -_MOST - 1 : -1]
        return {
            "title": "Replays",
            "here": "replay" in gateway.services,
            "triggers": sorted(n for n, t in gateway.topology.triggers.items() if t.delivery is not None),
            "asked": {name: request.asked(name) or default for name, default in _FIELDS.items()},
            "marked": bool(request.asked("mark")),
            "rows": [await row(id_, request) for id_ in known],
            "preview": None,
            "span": None,
        }

    async def show_list(request: Request) -> Answer:
        values = await listed(request)
        if request.asked("trigger"):
            wanted = wanted_by(request.asked)
            found = await (await jobs()).preview(wanted)
            values["preview"] = preview = found.counts.document()
            if console.hides.hides_attribute("type", request.role):
                preview["types"] = {}
            values["span"] = {"from": written(wanted.from_ns), "to": written(wanted.to_ns)}
        return html(render(_LIST, request, **values))

    async def list_parts(request: Request) -> dict[str, str]:
        return {"replays": fragment(_LIST, "replays", request, **await listed(request))}

    async def start(request: Request) -> Answer:
        from gateway_replay.jobs import facts

        job = await (await jobs()).start(wanted_by(request.form.get), request.who, request.peer)
        return see_other(f"{ROOT}{_PATH}/{job.id}", facts={**facts(job), "state": "started"})

    async def now(request: Request) -> dict[str, Any]:
        return {"title": "Replay", "section": "Replays", "replay": await row(request.params["id"], request)}

    async def show(request: Request) -> Answer:
        return html(render(_ONE, request, **await now(request)))

    async def parts(request: Request) -> dict[str, str]:
        values = await now(request)
        return {name: fragment(_ONE, name, request, **values) for name in ("progress", "changing")}

    def changed(word: str) -> Any:
        async def change(request: Request) -> Answer:
            known, id_ = await jobs(), request.params["id"]
            if word == "pause":
                known.pause(id_)
            else:
                await (known.resume(id_) if word == "resume" else known.cancel(id_))
            return see_other(f"{ROOT}{_PATH}/{quote(id_)}", facts={"replay": id_})

        return change

    one = f"{_PATH}/{{id}}"
    return [
        page(_PATH, show_list, "Replays of past events"),
        live(f"/live{_PATH}", list_parts, console.sampler, "Changes of replays"),
        action(_PATH, start, "Replay past events", role="operator", audit="replay.start"),
        page(one, show, "A replay of past events"),
        live(f"/live{one}", parts, console.sampler, "How far a replay of past events is"),
        *(
            action(f"{one}/{word}", changed(word), summary, role="operator", audit=f"replay.{word}")
            for word, summary in (
                ("pause", "Pause a replay of past events"),
                ("resume", "Continue a replay of past events"),
                ("cancel", "End a replay of past events"),
            )
        ),
    ]
