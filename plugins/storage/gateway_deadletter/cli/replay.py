"""`tidegate dlq replay`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import httpx
import typer
from gateway_api.client.running import addresses
from gateway_audit_log.log import Result, record_command
from gateway_cloudevents import event_json
from gateway_http.cli.post import STRUCTURED, binary, check_url, client, given_headers, post
from gateway_http.cli.tls_files import Files, tls_of
from gateway_transport.trace_headers import headers as trace_headers

from gateway_core.contract.cli import common
from gateway_core.contract.cli.exit_codes import FAULT, OK
from gateway_core.contract.dead_letter_facts import without_facts
from gateway_core.contract.options import HIDDEN

from ..dead_letters import DeadLetter, Query, Stores, of_events
from ..replaying import Removals, was_event


@dataclass(frozen=True, slots=True)
class Replay:
    """Options: `to` is an address, or None for each broker's ingress, which must be `confirmed`."""

    to: str | None
    retry: int
    dry_run: bool
    as_json: bool
    headers: Sequence[str] = ()
    tls: Files = (None, None, None)
    confirmed: bool = True


@dataclass(slots=True)
class Count:
    replayed: int = 0
    refused: int = 0
    skipped: int = 0


def replay_dead_letters(stores: Stores, query: Query, plan: Replay) -> int:
    """Sends the selected dead letters and removes those that got a 2xx. Returns the exit code."""
    if plan.to is not None:
        try:
            check_url(plan.to)
        except ValueError as e:
            raise typer.BadParameter(str(e), param_hint="--to") from e
    try:
        given = given_headers(plan.headers)
    except ValueError as e:
        raise typer.BadParameter(str(e), param_hint="--header") from e
    tls = tls_of(plan.tls)
    # read first, because replayed events may come back meanwhile
    dead_letters = list(stores.dead_letters(query))
    if missing := query.ids - {dead_letter.id for dead_letter in dead_letters}:
        known = ((found.id, found.fact("id")) for found in stores.dead_letters(replace(query, ids=frozenset())))
        raise common.CommandError(f"no dead letter has the id {', '.join(sorted(missing))}{of_events(missing, known)}")
    targets = _targets(stores, dead_letters, plan)
    count = Count()
    if plan.dry_run:
        for dead_letter in dead_letters:
            where = targets[dead_letter.broker] if was_event(dead_letter) else "nowhere: it was never an event"
            print(f"{dead_letter.id}  {dead_letter.fact('type')} {dead_letter.fact('id')} -> {where}")
    elif dead_letters:
        if not plan.confirmed:
            _confirm(stores, dead_letters)
        with client(list(targets.values()), headers=given, tls=tls) as to:
            _replay_all(dead_letters, targets, plan, to, count)
        facts = {"replayed": count.replayed, "refused": count.refused, "to": sorted(set(targets.values()))}
        result: Result = "done" if count.replayed == len(dead_letters) else "failed"
        record_command(stores.data_dir, "dlq.replay", result, **facts)
    _report(count, len(dead_letters), plan)
    return OK if plan.dry_run or count.replayed == len(dead_letters) else FAULT


def _confirm(stores: Stores, dead_letters: Sequence[DeadLetter]) -> None:
    """Asks whether all triggers shall get them. Raises `CommandError`, and `typer.Abort` after a no."""
    sent = [dead_letter for dead_letter in dead_letters if was_event(dead_letter)]
    names = stores.triggers_of({dead_letter.broker for dead_letter in sent})
    events = "1 event goes" if len(sent) == 1 else f"{len(sent):,} events go"
    question = f"{events} to all triggers that match ({', '.join(names)}), also to those that have them. Send?"
    try:
        typer.confirm(question, abort=True, err=True)
    except typer.Abort:
        raise common.CommandError(f"nothing was sent: add --yes if you mean it ({question[:-6]})") from None


def _targets(stores: Stores, dead_letters: Iterable[DeadLetter], plan: Replay) -> dict[str, str]:
    """The address for each broker's dead letters. Raises `CommandError` if it is unknown."""
    brokers = {dead_letter.broker: dead_letter for dead_letter in dead_letters}
    if plan.to is not None:
        return dict.fromkeys(brokers, plan.to)
    found = addresses(stores.data_dir)
    if brokers and found is None:
        raise common.CommandError("the gateway isn't running: start it, or pass an address with --to")
    return {name: _ingress_of(dead_letter, found["ingress"] if found else {}) for name, dead_letter in brokers.items()}


def _ingress_of(dead_letter: DeadLetter, ingress: dict[str, list[str]]) -> str:
    if not dead_letter.broker:
        raise common.CommandError(
            f"{dead_letter.place.owner}: a bridge can't replay dead letters: pass an address with --to"
        )
    for url in ingress.get(dead_letter.broker, ()):
        if url.startswith(("http://", "https://")) and HIDDEN not in url:
            return url
    raise common.CommandError(f"broker {dead_letter.broker!r} has no known HTTP ingress: pass an address with --to")


def _replay_all(
    dead_letters: list[DeadLetter], targets: dict[str, str], plan: Replay, to: httpx.Client, count: Count
) -> None:
    removals = Removals()
    try:
        for dead_letter in dead_letters:
            if not was_event(dead_letter):
                count.skipped += 1
                print(f"{dead_letter.id}: skipped, it was never an event", file=sys.stderr)
                continue
            event = without_facts(dead_letter.event)
            # functions that know events under Fn's 0.1 names (`cloudEventsVersion`) expect JSON
            if event.attributes.get("specversion") == "1.0" or "cloudEventsVersion" in event.attributes:
                headers, body = STRUCTURED, event_json.structured(event)
            else:
                headers, body = binary(event)
            if event.trace is not None:
                headers = {**headers, **{n.decode(): v.decode() for n, v in trace_headers(event.trace)}}
            answer = post(to, targets[dead_letter.broker], headers, body, plan.retry)
            if not answer.accepted:
                count.refused += 1
                print(f"{dead_letter.id}: {answer.detail}", file=sys.stderr)
                if answer.status is None:
                    return
                continue
            if answer.duplicate:  # nobody gets it: the dead letter is all that is left
                count.refused += 1
                print(
                    f"{dead_letter.id}: its broker has this event already, at position {answer.duplicate}, and did not"
                    " store it again (`deduplicate`): replay it without --all-triggers and --to",
                    file=sys.stderr,
                )
                continue
            removals.accepted(dead_letter)
    finally:
        removals.finish()
        count.replayed = removals.removed


def _report(count: Count, all_: int, plan: Replay) -> None:
    left = all_ - count.replayed
    if plan.as_json:
        counts = {"replayed": count.replayed, "refused": count.refused, "skipped": count.skipped, "left": left}
        common.print_json({**counts, "dry_run": plan.dry_run})
    elif plan.dry_run:
        print(f"{all_} would be sent")
    else:
        print(f"{count.replayed} replayed, {left} left")
