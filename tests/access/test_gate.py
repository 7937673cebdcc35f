"""The gate of an ingress, with authenticators of a third party's plugin in a whole gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
from anyio.abc import TaskGroup
from gateway_access import gate
from gateway_http.endpoint import Endpoint
from gateway_testing.suites import Kit, MemoryIntake

from gateway_core.config.registry import Registry
from gateway_core.contract.admission import AlreadyStored, Verdict
from gateway_core.contract.authenticator import Forbidden, Unauthenticated
from gateway_core.contract.component import BuildContext, Component, Config, SourceRef
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.configs import load_all
from gateway_core.contract.errors import ConfigError, Overloaded, Refused
from gateway_core.contract.event import Event, Message
from gateway_core.contract.hookspecs import hookimpl
from gateway_core.contract.identity import Identity
from gateway_core.contract.interfaces import Accepted, Admission
from gateway_core.contract.settings import Settings
from gateway_core.pipeline.intake import SwitchableIntake
from gateway_core.runtime.gateway import Gateway
from tests import web
from tests.auth.rig import ingress
from tests.in_process import started

pytestmark = pytest.mark.anyio

EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/shop", "ce-type": "order.placed"}


class ByName:
    """Believes the header `x-name`. "slow" answers later, "away" can't be checked, "broken" raises."""

    challenge = 'Name realm="test"'
    started = 0

    def __init__(self, options: Config, context: BuildContext) -> None:
        self.peers: list[str] = []

    async def start(self, tasks: TaskGroup) -> None:
        ByName.started += 1

    async def stop(self) -> None:
        ByName.started -= 1

    def authenticate(self, request: Message) -> Identity | Awaitable[Identity | None] | None:
        name = request.header(b"x-name")
        assert request.peer.host == "127.0.0.1"
        match name:
            case None:
                return None
            case b"slow":
                return self._later()
            case b"away":
                raise Overloaded("nobody can tell now")
            case b"broken":
                raise ZeroDivisionError("secret inner text")
            case b"never":
                return anyio.sleep_forever()
            case b"dropped":
                return _dropped()
            case b"exits" | b"exits later":
                return self._exits() if b"later" in name else _exit()
            case b"wrong":
                raise Unauthenticated("no such name")
        return Identity(name.decode(), "by_name", "user", {"team": "shop"})

    async def _later(self) -> Identity:
        await anyio.lowlevel.checkpoint()
        return Identity("slow", "by_name")

    async def _exits(self) -> Identity:
        await anyio.lowlevel.checkpoint()
        return _exit()


def _exit() -> Identity:
    raise SystemExit(1)  # stands for a panic of a library in Rust, which is no `Exception` either


def _dropped() -> Awaitable[Identity | None]:
    """Something else that waited for the same answer took it away."""
    found: asyncio.Future[Identity | None] = asyncio.get_running_loop().create_future()
    found.cancel()
    return found


class Mine:
    """A third party's plugin. `banned` is a type that no source may bring, by its own rule."""

    banned = ""

    @hookimpl
    def gateway_authenticators(self) -> list[Component]:
        return [Component("by_name", "Believes a header.", Config, ByName)]

    @hookimpl
    def gateway_admissions(self) -> list[Callable[[GatewayConfig, SourceRef, BuildContext], Admission | None]]:
        return [self._admission]

    def _admission(self, config: GatewayConfig, ref: SourceRef, context: BuildContext) -> Admission | None:
        assert context.place == ("brokers", "default", "ingress", 0)

        def admit(events: Sequence[Event]) -> Refused | None:
            bad = any(event.attributes["type"] == self.banned for event in events)
            return Forbidden("this type is banned") if bad else None

        return admit


class Plugin:
    """Another one's, with these authenticators."""

    def __init__(self, components: list[Component]) -> None:
        self._components = components

    @hookimpl
    def gateway_authenticators(self) -> list[Component]:
        return self._components


class Watching:
    """Another one's, which only looks."""

    def __init__(self) -> None:
        self.seen: list[Event] = []

    @hookimpl
    def gateway_admissions(self) -> list[Callable[[GatewayConfig, SourceRef, BuildContext], Admission | None]]:
        return [lambda config, ref, context: self.seen.extend]


@pytest.fixture
def registry() -> Registry:
    found = Registry.installed()
    found.add("mine", Mine())
    return found


@asynccontextmanager
async def running(registry: Registry, folder: Path, options: str) -> AsyncIterator[tuple[Gateway, httpx.AsyncClient]]:
    """A gateway whose one ingress has these options."""
    file = folder / "tidegate.yaml"
    file.write_text(f"brokers: {{default: {{ingress: [{{http: {{listen: '127.0.0.1:0', {options}}}}}]}}}}")
    config = load_all([file], registry, {}).config
    gateway = Gateway(config, Settings(data_dir=folder / "data", admin="off"), registry)
    async with started(gateway):
        url = gateway.ingress["default"][0]
        async with web.async_client(base_url=url, headers=EVENT, verify=False, timeout=30) as client:
            yield gateway, client


def accepted(gateway: Gateway) -> int:
    return gateway.status().brokers[0].accepted


@pytest.mark.slow
@pytest.mark.spec("AC-01")
@pytest.mark.parametrize("engine", ["native", "hypercorn"])
async def test_only_a_proven_sender_gets_in(registry: Registry, tmp_path: Path, engine: str) -> None:
    async with running(registry, tmp_path, f"server: {engine}, authenticate: [by_name]") as (gateway, client):
        answers = {
            name: (await client.post("", headers={"x-name": name} if name else {}))
            for name in ("", "wrong", "a", "slow")
        }
        assert {name: answer.status_code for name, answer in answers.items()} == {
            "": 401,
            "wrong": 401,
            "a": 202,
            "slow": 202,
        }
        assert answers[""].headers["www-authenticate"] == 'Name realm="test"'
        assert answers["wrong"].json()["detail"] == "no such name"
        assert accepted(gateway) == 2
        assert gateway.status().brokers[0].refused == 2
    lines = [json.loads(line) for line in (tmp_path / "data/audit/audit.jsonl").read_text().splitlines()]
    wanted = {("denied", 401, "no such name"), ("denied", 401, "the request has no credentials")}
    assert {(line["result"], line["status"], line["reason"]) for line in lines} == wanted
    assert {(line["where"], line["what"], line["ingress"]) for line in lines} == {
        ("127.0.0.1", "event.send", "brokers.default.ingress[0]")
    }


@pytest.mark.spec("AC-02")
async def test_an_authenticator_that_fails_lets_nobody_in(registry: Registry, tmp_path: Path) -> None:
    async with running(registry, tmp_path, "authenticate: [by_name], anonymous: true") as (gateway, client):
        for name in ("away", "broken"):
            answer = await client.post("", headers={"x-name": name})
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert "secret" not in answer.text
        assert (await client.post("", headers={"x-name": "wrong"})).status_code == 401
        assert accepted(gateway) == 0
        assert (await client.post("")).status_code == 202


@pytest.mark.spec("AC-02")
async def test_a_stop_waits_for_no_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = anyio.Event()

    def never(self: object, request: Message) -> Awaitable[Identity | None]:
        asked.set()
        return anyio.sleep_forever()

    monkeypatch.setattr(gate, "LAST_CHECK_S", 0.05)
    monkeypatch.setattr(gate, "LONGEST_CHECK_S", 3600)
    (tmp_path / "users.json").write_text('{"users": {}}')
    async with ingress(Kit(tmp_path), {"basic": {"file": tmp_path / "users.json"}}) as http:
        monkeypatch.setattr("gateway_auth.basic.BasicAuthenticator.authenticate", never)
        answers: list[httpx.Response] = []

        async def post() -> None:
            answers.append(await http.post())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(post)
            await asked.wait()
            await http.source.stop()
        (answer,) = answers
        assert (answer.status_code, answer.json()["detail"]) == (503, "the check of the credentials took too long")
        assert http.intake.events == []


@pytest.mark.slow
@pytest.mark.spec("AC-02")
@pytest.mark.parametrize("engine", ["native", "hypercorn"])
async def test_a_check_that_does_not_end_well_ends_nothing_else(
    registry: Registry, tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "LONGEST_CHECK_S", 0.2)
    async with running(registry, tmp_path, f"server: {engine}, authenticate: [by_name]") as (gateway, client):
        for name in ("never", "dropped", "exits", "exits later"):
            answer = await client.post("", headers={"x-name": name})
            assert (name, answer.status_code, answer.headers["retry-after"]) == (name, 503, "1")
        assert (await client.post("", headers={"x-name": "slow"})).status_code == 202
        assert accepted(gateway) == 1


@pytest.mark.slow
@pytest.mark.spec("AC-02")
async def test_what_fails_behind_a_check_ends_no_more_than_its_request(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: object, accept: object, message: object, done: Accepted, *found: object) -> None:
        done(Overloaded("not now"))
        raise ZeroDivisionError("secret inner text")

    async with running(registry, tmp_path, "authenticate: [by_name]") as (gateway, client):
        with monkeypatch.context() as patch:
            patch.setattr(Endpoint, "_checked", fails)
            assert (await client.post("", headers={"x-name": "slow"})).status_code == 503
        assert (await client.post("", headers={"x-name": "slow"})).status_code == 202
        assert accepted(gateway) == 1


@pytest.mark.spec("AC-02")
async def test_without_anyone_who_may_come_in_nobody_does(tmp_path: Path) -> None:
    """It is a fault of a config, which not everything reads that builds a source."""
    async with ingress(Kit(tmp_path), anonymous=False) as http:
        assert await http.status() == 401
        assert http.intake.events == []


@pytest.mark.slow
@pytest.mark.spec("AC-01")
async def test_http2_shows_authenticators_the_same_request(registry: Registry, tmp_path: Path) -> None:
    seen: list[Any] = []

    class Noting(ByName):
        def authenticate(self, request: Message) -> Identity | Awaitable[Identity | None] | None:
            headers = [f for f in request.headers if f[0] not in (b"connection", b"user-agent", b"te")]
            seen.append((request.method, request.url, sorted(headers), request.body, request.key))
            return super().authenticate(request)

    noting = Component("noting", "Notes requests.", Config, Noting)
    registry.add("noting", Plugin([noting]))
    async with running(registry, tmp_path, "server: hypercorn, authenticate: [noting]") as (gateway, client):
        url = gateway.ingress["default"][0]
        async with web.async_client(http1=False, http2=True, headers=EVENT, verify=False) as second:
            for target in (url, f"{url}?key=a%20b&x=1&x=?", f"{url}?&"):
                for chosen in (client, second):
                    headers = [("x-name", "a"), ("X-Twice", "1"), ("x-twice", "2"), ("cookie", "a=1; b=2")]
                    assert (await chosen.post(target, headers=headers, content=b"x")).status_code == 202
    assert seen[::2] == seen[1::2]
    assert len(seen) == 6


@pytest.mark.spec("AC-03")
async def test_the_sender_is_written_into_the_event_if_configured(registry: Registry, tmp_path: Path) -> None:
    watching = Watching()
    registry.add("watching", watching)
    forged = {"ce-authid": "admin", "ce-authtype": "system", "ce-authclaims": "{}"}
    options = "authenticate: [by_name], anonymous: true, auth_context: true"
    async with running(registry, tmp_path, options) as (_, client):
        assert (await client.post("", headers={**forged, "x-name": "a"})).status_code == 202
        assert (await client.post("", headers=forged)).status_code == 202
    marks = [{k: v for k, v in event.attributes.items() if k.startswith("auth")} for event in watching.seen]
    assert marks == [{"authid": "a", "authtype": "user"}, {"authtype": "unauthenticated"}]
    assert [event.identity.subject for event in watching.seen if event.identity] == ["a", "anonymous"]


@pytest.mark.spec("AC-04")
async def test_admissions_refuse_what_a_source_brings(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(registry, tmp_path, "anonymous: true") as (gateway, client):
        monkeypatch.setattr(Mine, "banned", "order.placed")
        answer = await client.post("")
        assert (answer.status_code, answer.json()["detail"]) == (403, "this type is banned")
        assert (accepted(gateway), gateway.status().brokers[0].refused) == (0, 1)
        monkeypatch.setattr(Mine, "banned", "")
        assert (await client.post("")).status_code == 202


class Known:
    """Another one's, which has these ids already."""

    def __init__(self, *ids: str) -> None:
        self.ids = ids

    @hookimpl
    def gateway_admissions(self) -> list[Callable[[GatewayConfig, SourceRef, BuildContext], Admission | None]]:
        return [lambda config, ref, context: self._known]

    def _known(self, events: Sequence[Event]) -> Verdict:
        return AlreadyStored() if all(event.attributes["id"] in self.ids for event in events) else None


@pytest.mark.spec("AC-11")
async def test_what_is_here_already_is_acknowledged_and_not_stored_again(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.add("known", Known("7"))
    async with running(registry, tmp_path, "anonymous: true") as (gateway, client):
        repeated = await client.post("", headers={"ce-id": "7"})
        new = await client.post("", headers={"ce-id": "8"})
        assert (repeated.status_code, repeated.content) == (new.status_code, new.content) == (202, b"")
        status = gateway.status().brokers[0]
        assert (status.accepted, status.refused) == (1, 0)
        monkeypatch.setattr(Mine, "banned", "order.placed")
        assert (await client.post("", headers={"ce-id": "7"})).status_code == 403, "who may not send learns nothing"


@pytest.mark.spec("AC-11")
@pytest.mark.parametrize("first", ["refusal", "stored"])
def test_a_refusal_counts_for_more_than_what_is_here_already(first: str) -> None:
    """In any order. Each group is answered once, and its events know where they are."""
    known, banned = MemoryIntake(), Forbidden("not you")
    verdicts: dict[str, Verdict] = {"refusal": banned, "stored": AlreadyStored([5, 6])}
    order = [lambda events: verdicts[first], lambda events: verdicts["stored" if first == "refusal" else "refusal"]]
    intake = SwitchableIntake(known, None, order)
    events = [Event({"id": n}) for n in "12"]
    answers: list[BaseException | None] = []
    intake.accept(events, answers.append)
    verdicts["refusal"] = None
    intake.accept(events, answers.append)
    assert (answers, known.refused, known.events) == ([banned, None], [banned], [])
    assert [event.position for event in events] == [5, 6]


@pytest.mark.spec("AC-05")
async def test_an_ingress_for_other_machines_must_say_who_may_send(registry: Registry, tmp_path: Path) -> None:
    def config(options: str) -> Any:
        file = tmp_path / "tidegate.yaml"
        file.write_text(f"brokers: {{default: {{ingress: [{{http: {{listen: '0.0.0.0:0', {options}}}}}]}}}}")
        return load_all([file], registry, {})

    def build(options: str) -> None:
        Gateway(config(options).config, Settings(data_dir=tmp_path / "data", admin="off"), registry)

    with pytest.raises(ConfigError, match=r"anyone who reaches this address could send events\n.*add `authenticate`"):
        build("path: /")
    for options in ("anonymous: true", "authenticate: [by_name]"):
        assert config(options).warnings == []
        build(options)


@pytest.mark.spec("AC-08")
@pytest.mark.parametrize("sink", ["pull", "websocket"])
async def test_a_listener_for_subscribers_must_say_who_may_have_events(
    registry: Registry, tmp_path: Path, sink: str
) -> None:
    def loaded(options: str) -> Any:
        file = tmp_path / "tidegate.yaml"
        file.write_text(f"brokers: {{default: {{}}}}\ntriggers: {{all: {{subscriber: {{{sink}: {{{options}}}}}}}}}")
        return load_all([file], registry, {})

    def build(options: str) -> None:
        Gateway(loaded(options).config, Settings(data_dir=tmp_path / "data", admin="off"), registry)

    others = "listen: '0.0.0.0:0', path: /events"
    with pytest.raises(ConfigError, match=r"anyone who reaches this address could get events\n.*add `token`"):
        build(others)
    connecting = tmp_path / "connecting.yaml"
    connecting.write_text("bridges: {b: {source: http, sink: 'ws://example.com/feed'}}")
    load_all([connecting], registry, {})
    for options in (f"{others}, anonymous: true", f"{others}, token: abc", "listen: '127.0.0.1:0', path: /events"):
        build(options)
