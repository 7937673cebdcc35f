"""The pages of dead letters: their groups, each in full, and what replays them.

An operator replays them as they are: the gateway hands each event to the trigger that gave it up, or after a
confirmation to its broker (`gateway_deadletter.replays` says what that means for policies and credentials). An admin
may edit one before; the original stays until the edited event was delivered.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

from anyio import to_thread
from gateway_api.routes import Answer, Problem, Request, Route
from gateway_deadletter.dead_letters import DeadLetter, Query, Stores, detail
from gateway_deadletter.overview import Entry, Group, Selection, entry_of
from gateway_deadletter.replay import Replay, selection
from gateway_deadletter.replay_routes import DEFAULT_RATE, checked_rate, confirmed
from gateway_deadletter.replaying import was_event
from gateway_deadletter.replays import ACTION, Reach
from gateway_deadletter.service import DeadLetterService
from gateway_inspect.explain import read_event, sources_of

from gateway_core.contract.capabilities import Reading

from ..bars import bars
from ..config import HIDDEN
from ..context import Console
from ..diff import lines
from ..event_view import bytes_view, view
from ..explained import explained
from ..live import live
from ..page import ROOT, action, fragment, html, page, render, see_other
from ..seen import seen_delivered

_PATH = "/dead-letters"
_LIST = "dead_letters.html"
_ONE = "dead_letter.html"
_ALL = "all"
_EDIT = "dead_letter_edit.html"
_REPLAY = "replay.html"
_PAGE = 50
_MOST_GROUPS = 50
_MOST_EDITED = 256 * 1024
_FILTERS = ("trigger", "reason", "group", "redelivered")
_REDELIVERED = {"yes": True, "no": False}
_GOOD = {"done": "good", "running": "", "waiting": "", "failed": "bad", "cancelled": "warn", "stopped": "warn"}


def routes(console: Console) -> list[Route]:
    """The list, each dead letter, each replay, and their forms."""
    gateway = console.gateway
    service = gateway.services["deadletter"]
    assert isinstance(service, DeadLetterService)
    replays, overview = service.replays, service.overview

    def query_of(given: Any) -> Query:
        found = {name: given(name) or None for name in _FILTERS}
        since = _REDELIVERED.get(found["redelivered"] or "")
        return Query(None, found["trigger"], found["reason"], group=found["group"], redelivered=since)

    async def listed(request: Request) -> dict[str, Any]:
        query = query_of(request.asked)
        snapshot, found = await to_thread.run_sync(overview.select, query)
        sent = [e for e in found.entries if e.redelivered is None] if query.redelivered is None else found.entries
        skip = _number(request.asked("skip"))
        asked = {name: value for name in _FILTERS if (value := request.asked(name))}
        return {
            "title": "Dead letters",
            "asked": asked,
            "address": urlencode(asked),
            "snapshot": snapshot,
            "elsewhere": await overview.elsewhere(query),
            "left_behind": overview.left,
            "found": found,
            "chart": _chart(found),
            "groups": [_group(console, request, group) for group in found.groups[:_MOST_GROUPS]],
            "left_out": len(found.groups) - _MOST_GROUPS,
            "rows": [_row(console, request, entry) for entry in found.entries[skip : skip + _PAGE]],
            "skip": skip,
            "size": _PAGE,
            "replays": [*replays.known.values()][:-6:-1],
            "rate": DEFAULT_RATE,
            "reach": _reach(console, sent),
            "redelivered": sum(1 for entry in found.entries if entry.redelivered is not None),
            "kind_of": _GOOD,
            "selected": len(asked) > 0,
        }

    async def show_list(request: Request) -> Answer:
        return html(render(_LIST, request, **await listed(request)))

    async def list_parts(request: Request) -> dict[str, str]:
        values = await listed(request)
        return {name: fragment(_LIST, name, request, **values) for name in ("summary", "replays", "groups", "rows")}

    async def found(request: Request) -> DeadLetter:
        return await to_thread.run_sync(_one, overview.stores(), request.params["id"])

    async def show(request: Request) -> Answer:
        return html(render(_ONE, request, **_full(console, request, await found(request)), explained=None))

    async def tried(request: Request) -> Answer:
        dead_letter = await found(request)
        _may_see(console, request)
        explained = _explained(console, json.dumps(detail(dead_letter)["event"]), dead_letter)
        return html(fragment(_ONE, "tried", request, explained=explained, trigger=dead_letter.fact("tidegatetrigger")))

    async def show_edit(request: Request) -> Answer:
        dead_letter = await found(request)
        if not was_event(dead_letter) or not dead_letter.broker:
            raise Problem(409, "this dead letter can't be sent again from here, so there is nothing to edit")
        text = _pretty(detail(dead_letter)["event"])
        if len(text) > _MOST_EDITED:
            raise Problem(413, "this event is too large to be edited here: use `tidegate dlq show` and `tidegate send`")
        values = {"title": "Edit", "section": "Dead letters", "letter": dead_letter, "text": text}
        return html(render(_EDIT, request, **values, planned=None))

    async def plan(request: Request) -> Answer:
        dead_letter = await found(request)
        text = request.form.get("event", "")
        explained = _explained(console, text, dead_letter)
        before = _pretty(detail(dead_letter)["event"])
        values = {
            "letter": dead_letter,
            "text": text,
            "planned": explained,
            "changes": lines(before, _pretty(json.loads(text))),
            "trigger": dead_letter.fact("tidegatetrigger"),
        }
        return html(fragment(_EDIT, "plan", request, **values))

    async def send_edited(request: Request) -> Answer:
        dead_letter = await found(request)
        text = request.form.get("event", "")
        explained = _explained(console, text, dead_letter)
        name = dead_letter.fact("tidegatetrigger")
        matched = [each["name"] for each in explained["deliveries"] if each["matched"]]
        to_all = request.form.get("to") == _ALL
        if explained["refused"] or not matched:
            raise Problem(422, "no trigger would get this event: check it first")
        if not to_all and name not in matched:
            raise Problem(422, f"trigger {name} would not get this event: check it first")
        sources = sources_of(gateway.topology).get(dead_letter.broker, [])
        event = read_event(text.encode(), [s for s in sources if isinstance(s, Reading)][:1])
        event.key, event.trace = dead_letter.event.key, dead_letter.event.trace
        replay = replays.new(Query(ids=frozenset((dead_letter.id,))), 0, request.who, request.peer)
        replay.edited, replay.all_triggers = event, to_all
        replay.seen = partial(seen_delivered, console.inspect, name if name in matched else None)
        return started(replay)

    async def start(request: Request) -> Answer:
        form = request.form
        query = query_of(form.get)
        if form.get("id"):
            query = Query(ids=frozenset((form["id"],)))
        elif query.redelivered is None:
            query = replace(query, redelivered=False)
        rate = checked_rate(_number(form.get("rate"), -1))
        replay = replays.new(query, rate, request.who, request.peer)
        if form.get("to") == _ALL:
            await confirmed(replays, query, _number(form.get("confirm"), -1))
            replay.all_triggers = True
        return started(replay)

    def started(replay: Replay) -> Answer:
        replays.start(replay)
        facts = {"replay": replay.id, "state": "started", **selection(replay)}
        return see_other(f"{ROOT}/replays/{replay.id}", facts=facts)

    def now(request: Request) -> dict[str, Any]:
        replay = replays.find(request.params["id"])
        status = {trigger.name: trigger for trigger in console.sampler.current.triggers}
        rows = [
            {
                "name": name,
                "count": count,
                "delivered": status[name].delivered - replay.before.get(name, (0, 0))[0] if name in status else None,
                "failed": status[name].dead_lettered - replay.before.get(name, (0, 0))[1] if name in status else None,
                "lag": status[name].lag if name in status else None,
            }
            for name, count in sorted(replay.triggers.items())
        ]
        return {
            "title": "Replay",
            "section": "Dead letters",
            "replay": replay,
            "kind": _GOOD[replay.state],
            "chosen": selection(replay),
            "rows": rows,
        }

    def show_replay(request: Request) -> Answer:
        return html(render(_REPLAY, request, **now(request)))

    def replay_parts(request: Request) -> dict[str, str]:
        values = now(request)
        return {name: fragment(_REPLAY, name, request, **values) for name in ("progress", "cancelling")}

    def cancel(request: Request) -> Answer:
        replay = replays.cancel(request.params["id"])
        return see_other(f"{ROOT}/replays/{quote(replay.id)}")

    one, job = f"{_PATH}/{{id}}", "/replays/{id}"
    return [
        page(_PATH, show_list, "Dead letters"),
        live("/live/dead-letters", list_parts, console.sampler, "Changes of dead letters", 2.0),
        page(one, show, "A dead letter"),
        action(f"{one}/try", tried, "What would be sent now", role="viewer"),
        page(f"{one}/edit", show_edit, "A form to edit a dead letter", role="admin"),
        action(f"{one}/plan", plan, "What the edited event changes", role="admin", audit="dlq.plan"),
        action(f"{one}/edit", send_edited, "Send the edited event", role="admin", audit=ACTION),
        action("/replays", start, "Replay dead letters", role="operator", audit=ACTION),
        page(job, show_replay, "A replay"),
        live(f"/live{job}", replay_parts, console.sampler, "How far a replay is"),
        action(f"{job}/cancel", cancel, "End a replay", role="operator", audit="dlq.cancel"),
    ]


def _reach(console: Console, entries: Iterable[Entry]) -> Reach:
    """What a replay of these to all triggers would send, and to whom."""
    brokers = [entry.broker for entry in entries if entry.sendable and entry.broker]
    triggers = console.gateway.config.triggers.items()
    return Reach(len(brokers), [name for name, trigger in triggers if trigger.broker in {*brokers}])


def _one(stores: Stores, id_: str) -> DeadLetter:
    found = next(stores.dead_letters(Query(ids=frozenset((id_,)))), None)
    if found is None:
        raise Problem(404, f"{stores.absent(id_)}: it was replayed, or removed")
    return found


def _number(text: str | None, default: int = 0) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else default


def _chart(found: Selection) -> Any:
    return bars(found.bars, f"Dead letters over time, {len(found.entries)} in all", width=640, height=64)


def _shown(console: Console, request: Request, name: str, value: str) -> str:
    return HIDDEN if console.hides.hides_attribute(name, request.role) else value


def _row(console: Console, request: Request, entry: Entry) -> dict[str, Any]:
    shown = partial(_shown, console, request)
    return {
        "entry": entry,
        "type": shown("type", entry.type)[:200],
        "source": shown("source", entry.source)[:200],
        "event_id": shown("id", entry.event_id)[:200],
        "reason": shown("tidegatereason", entry.reason),
        "code": shown("knativeerrorcode", entry.code),
    }


def _group(console: Console, request: Request, group: Group) -> dict[str, Any]:
    row = _row(console, request, group.newest)
    return {**row, "group": group, "chart": bars(group.bars, f"{group.count} over time", width=96, height=20)}


def _may_see(console: Console, request: Request) -> None:
    """What would be sent shows all of the event. Raises `Problem`."""
    if console.hides.hides_some(request.role):
        raise Problem(403, "what would be sent is hidden from your role, because it shows the whole event")


def _full(console: Console, request: Request, dead_letter: DeadLetter) -> dict[str, Any]:
    document = detail(dead_letter)
    hides, shown = console.hides, partial(_shown, console, request)
    answer = document["answer"]
    facts = (
        ("Attempts", "tidegateattempts", document["attempts"]),
        ("Answer", "knativeerrorcode", document["code"] or "none"),
        ("Stage", "tidegatestage", document["stage"]),
        ("First attempt (UTC)", "tidegatefirst", document["first"][:19].replace("T", " ")),
        ("Last attempt (UTC)", "tidegatelast", document["last"][:19].replace("T", " ")),
    )
    link = urlencode({"id": document["event_id"], "source": document["source"]})
    return {
        "title": shown("id", document["event_id"])[:200] or "Dead letter",
        "section": "Dead letters",
        "letter": dead_letter,
        "facts": [(label, shown(name, str(value))) for label, name, value in facts],
        "trigger": document["trigger"],
        "dest": shown("knativeerrordest", document["dest"]),
        "reason": shown("tidegatereason", document["reason"]),
        "answer": HIDDEN if answer and hides.hides_data(request.role) else answer,
        "answer_view": bytes_view((answer or "").encode("utf-8", "surrogatepass")),
        "view": view(document["event"], hides, request.role),
        "event_link": f"{ROOT}/events?{link}",
        "sendable": was_event(dead_letter),
        "redelivered": document["redelivered"],
        "reach": _reach(console, [entry_of(dead_letter)]),
        "rate": DEFAULT_RATE,
    }


def _pretty(event: Any) -> str:
    return json.dumps(event, indent=2, ensure_ascii=False)


def _explained(console: Console, text: str, dead_letter: DeadLetter) -> dict[str, Any]:
    """What would happen to the event in this text now, at the broker of the dead letter; the deliveries of its own
    trigger come first. Raises `Problem`."""
    found = explained(text, console.gateway.topology, dead_letter.broker or None)
    name = dead_letter.fact("tidegatetrigger")
    found["deliveries"].sort(key=lambda each: (each["name"] != name, not each["matched"]))
    for delivery in found["deliveries"]:
        message = delivery.get("message")
        if message is not None:
            body = message.get("body")
            delivery["body"] = bytes_view((message.get("body_base64") or "" if body is None else body).encode())
    return found
