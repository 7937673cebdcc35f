"""`tidegate explain`, from a config or a running gateway."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import typer
from gateway_access.decisions import Sender
from gateway_api.client.remote import remote
from gateway_cloudevents import event_json
from gateway_cloudevents.event_files import from_file
from gateway_json import json_text

from gateway_core.contract.cli import common
from gateway_core.contract.cli.common import CommandError
from gateway_core.contract.cli.exit_codes import FAULT, OK, USAGE
from gateway_core.contract.one_line import one_line

Asked = Callable[[bytes], dict[str, Any]]
"""Explains an event in JSON. Raises `ValueError` if the text is not an event."""


def explain_events(
    file: Path,
    paths: Sequence[Path] | None,
    broker: str | None,
    trigger: str | None,
    *,
    sender: Sender | None = None,
    admin: str | None = None,
    data_dir: Path | None = None,
    as_json: bool,
) -> int:
    """Explains each event of the file from the config or the running gateway; returns the exit code."""
    if (admin or data_dir) and paths:
        raise typer.BadParameter("a running gateway has its own config: pass either files, or --admin or --data-dir")
    if not (admin or data_dir):
        return _explain(file, _offline(paths, broker, trigger, sender), as_json=as_json)
    with remote(admin, data_dir) as gateway:

        def ask(text: bytes) -> dict[str, Any]:
            question: dict[str, Any] = {"event": msgspec.Raw(_readable(text)), "broker": broker, "trigger": trigger}
            if sender is not None:
                question["sender"] = asdict(sender)
            found: dict[str, Any] = gateway.ask(
                "POST", "explain", body=msgspec.json.encode(question), media="application/json"
            )
            return found

        return _explain(file, ask, as_json=as_json)


def _readable(text: bytes) -> bytes:
    """The event in JSON that the gateway's parser reads within a question."""
    return text if json_text.embeds(text) else event_json.structured(event_json.load(text))


def _explain(file: Path, ask: Asked, *, as_json: bool) -> int:
    try:
        texts = list(from_file(file))
    except CommandError as e:
        print(f"tidegate: {e}", file=sys.stderr)
        return USAGE
    if not texts:
        print(f"tidegate: {file}: the file has no events", file=sys.stderr)
        return USAGE
    try:
        documents = [ask(text) for text in texts]
    except ValueError as e:
        print(f"tidegate: {file}: {e}", file=sys.stderr)
        return USAGE
    if as_json:
        for document in documents:
            common.print_json(document)
    else:
        print("\n\n".join("\n".join(as_lines(document)) for document in documents))
    return OK if all(document["wanted"] and _let_in(document) for document in documents) else FAULT


def _let_in(document: Mapping[str, Any]) -> bool:
    access = document.get("access")
    return access is None or any(decision["allowed"] for decision in access)


def sender_of(subject: str | None, authenticator: str, claims: Sequence[str]) -> Sender | None:
    """The sender that the options name, with claims as `NAME=VALUE`, where VALUE is JSON or else text. Raises
    `BadParameter`."""
    if subject is None:
        if claims or authenticator:
            raise typer.BadParameter("--claim and --authenticator say more about a sender: add --as SUBJECT")
        return None
    found: dict[str, Any] = {}
    for claim in claims:
        name, equals, value = claim.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{claim!r} is not NAME=VALUE")
        try:
            found[name] = msgspec.json.decode(value.encode())
        except msgspec.MsgspecError:
            found[name] = value
    return Sender(subject, authenticator, found)


def _offline(paths: Sequence[Path] | None, broker: str | None, trigger: str | None, sender: Sender | None) -> Asked:
    from gateway_core.contract.clock import SystemClock
    from gateway_core.contract.configs import installed, load, offline

    from ..explain import deciding, explain_text, sources_of

    registry = installed()
    config = load(common.config_paths(paths), registry)
    _known("broker or bridge", broker, [*config.brokers, *config.bridges])
    _known("trigger", trigger, list(config.triggers))
    built = offline(config, registry)
    sources = sources_of(built)
    decide = deciding(config, registry, SystemClock(), sender)
    return lambda text: explain_text(text, built, sources, broker, trigger, decide)


def _known(kind: str, name: str | None, names: Sequence[str]) -> None:
    if name is not None and name not in names:
        raise CommandError(f"the config has no {kind} {name!r}; there are: {', '.join(names) or 'none'}")


# -- text output -----------------------------------------------------------------------------------------------------


def as_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """One explanation as lines of text."""
    yield "event " + ", ".join(f"{name} {value}" for name, value in document["event"].items())
    if refused := document.get("refused"):
        rule = f" ({refused['rule']})" if refused["rule"] else ""
        yield f"  refused at the ingress, {refused['status']}: {refused['detail']}{rule}"
        return
    for decision in document.get("access", ()):
        yield from access_lines(decision)
    for duplicate in document.get("duplicates", ()):
        yield f"  {_duplicate(duplicate)}"
    if not document["wanted"]:
        others = document.get("others", [])
        yield f"  wanted only by others: {', '.join(others)}" if others else "  nobody wants it"
    for delivery in document["deliveries"]:
        at = f" of broker {delivery['broker']}" if delivery["broker"] else ""
        yield f"{delivery['kind']} {delivery['name']}{at}: {'matched' if delivery['matched'] else 'not matched'}"
        yield from (f"  {line}" for line in clause_lines(delivery["filter"]))
        if delivery["matched"]:
            yield from (f"  {line}" for line in _delivery(delivery))
        yield from (f"  {text}" for text in delivery.get("replays", ()))


def _duplicate(duplicate: Mapping[str, Any]) -> str:
    if fault := duplicate.get("fault"):
        return f"whether broker {duplicate['broker']} has it already is not known: {fault}"
    content = ", with other content" if duplicate["differs"] else ""
    return (
        f"a duplicate, not stored again by broker {duplicate['broker']}: the first with its key is at"
        f" {duplicate['place']}{content}"
    )


_VERDICTS = {"allows": "allows it", "other senders": "is about other senders", "other events": "is about other events"}


def access_lines(decision: Mapping[str, Any]) -> Iterator[str]:
    """Whether a sender is let in at an ingress, and what each entry says."""
    by = f" ({decision['authenticator']})" if decision["authenticator"] else ""
    word = {True: "let in", False: f"refused with {decision['status']}", None: "not asked"}[decision["allowed"]]
    reason = f": {decision['reason']}" if decision["reason"] else ""
    yield f"sender {one_line(decision['subject'])}{by} at {decision['ingress']}: {word}{reason}"
    yield from (f"  {entry['entry']} {_VERDICTS[entry['verdict']]}" for entry in decision["entries"])


def clause_lines(clause: Mapping[str, Any]) -> Iterator[str]:
    """A filter's clause and its parts."""
    found = f" ({clause['found']})" if clause.get("found") else ""
    yield f"{'holds' if clause['matched'] else 'fails'}: {clause['text']}{found}"
    for part in clause.get("parts", ()):
        yield from (f"  {line}" for line in clause_lines(part))


def _delivery(delivery: Mapping[str, Any]) -> Iterator[str]:
    if delivery.get("reads"):
        yield f"read by {delivery['sink']} itself"
        return
    if delay := delivery.get("delay"):
        yield f"waits until it is due, {delay['wait_s']:g} s after it comes: if it came now, until {delay['due']}"
    if delivery["fault"]:
        yield delivery["fault"]
    elif (message := delivery["message"]) is None:
        yield f"sent to {delivery['sink']}(the sink can't show the message)"
    else:
        yield f"sent: {message['method']} {message['url']}" if message["method"] else f"sent to {message['url']}"
        yield from (f"  {name}: {value}" for name, value in message["headers"])
        if message.get("key") is not None:
            yield f"  (key) {message['key']}"
        yield from (f"  {line}" for line in _body(message))
    if delivery["order"] != "unordered":
        yield f"order by {delivery['order']}: " + (
            f"waits behind others of {delivery['order_key']}" if delivery["order_key"] else "waits for none"
        )
    yield from _plan(delivery)


def _body(message: Mapping[str, Any]) -> Iterator[str]:
    if "body_base64" in message:
        yield f"({len(message['body_base64']) * 3 // 4} bytes of binary data)"
    elif message["body"] is None:
        yield "(no body)"
    elif message["body"]:
        yield ""
        yield from message["body"].splitlines()


def _plan(delivery: Mapping[str, Any]) -> Iterator[str]:
    retries = delivery["retries"]
    then = (
        f"then into the dead letter {delivery['dead_letter']}" if delivery["dead_letter"] else "then the sender is told"
    )
    if delivery.get("endless"):
        then = "then again until the sink takes it"
    if delivery.get("hold_while_down"):
        yield "held while the subscriber gives no answer; after answers:"
    if not retries:
        yield f"no retries, {then}"
        return
    low, high = (sum(r["after_s"][i] for r in retries) for i in (0, 1))
    if (limit := delivery.get("retry_for_s")) is not None:
        yield f"retries for {limit:g} s since the first failure ({len(retries)} with the longest waits), {then}:"
    else:
        yield f"{len(retries)} retries, {low:g} to {high:g} s of delay in total, {then}:"
    for first, last, (least, most) in _runs(retries):
        yield f"  retry {first if first == last else f'{first} to {last}'} after {least:g} to {most:g} s"


def _runs(retries: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, int, Sequence[float]]]:
    """Groups retries with the same delay."""
    first = 0
    for i, retry in enumerate(retries):
        if i + 1 == len(retries) or retries[i + 1]["after_s"] != retry["after_s"]:
            yield retries[first]["retry"], retry["retry"], retry["after_s"]
            first = i + 1
