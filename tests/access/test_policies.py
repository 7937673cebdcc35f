"""Policies: who may send what, at real ingresses over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_access.policies import admission
from gateway_scenario.files import find_cases
from gateway_scenario.result import run_cases

from gateway_core.config.registry import Registry
from gateway_core.contract.clock import SystemClock
from gateway_core.contract.component import BuildContext
from gateway_core.contract.configs import load_all
from gateway_core.contract.errors import ConfigError
from gateway_core.pipeline.broker import Trigger
from tests import web
from tests.access.policy_rig import config, load_text, running
from tests.oidc.issuer import AUDIENCE, OwnIssuer

pytestmark = pytest.mark.anyio

EXAMPLE = Path(__file__).parents[1] / "config" / "policies" / "namespaces.yaml"
JSON = {"content-type": "application/cloudevents+json"}
PING = {"specversion": "1.0", "id": "1", "source": "/ping", "type": "dev.knative.sources.ping"}


async def _statuses(folder: Path, text: str, *cases: tuple[Any, ...]) -> None:
    """Runs a gateway and sends: (who, event, expected status). Exactly what was answered with 202 is accepted."""
    async with running(text, folder) as (rig, client):
        for who, event, status in cases:
            answer = await rig.post(client, who, event)
            assert answer.status_code == status, (who, event, answer.text)
        assert rig.accepted() == sum(status == 202 for _, _, status in cases)


@pytest.mark.slow
@pytest.mark.spec("PO-01")
@pytest.mark.parametrize("where", ["allow", "policies"])
async def test_an_entry_allows_by_subject_and_event(where: str, tmp_path: Path) -> None:
    entry = "from: ['key billing', 'system:serviceaccount:shop:*'], filters: [{prefix: {type: order.}}]"
    text = config(allow=f"[{{{entry}}}]") if where == "allow" else config(f"{{one: {{brokers: [default], {entry}}}}}")
    order, other = {"type": "order.placed"}, {"type": "x"}
    await _statuses(
        tmp_path,
        text,
        ("key billing", order, 202),
        ("key billing", other, 403),
        ("key billing-evil", order, 403),
        ("key billin", order, 403),
        ("KEY BILLING", order, 403),
        ("key billing ", order, 403),
        ("system:serviceaccount:shop:orders", order, 202),
        ("system:serviceaccount:shop:", order, 202),
        ("system:serviceaccount:shop", order, 403),
        ("system:serviceaccount:shop2:orders", order, 403),
        ("system:serviceaccount:shop:*", order, 202),
        ("SYSTEM:serviceaccount:shop:orders", order, 403),
        ("*", order, 403),
        ("", order, 403),
        ("key billing", order, 202),
    )
    (audit,) = tmp_path.rglob("audit.jsonl")
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert len(lines) == 10
    assert (lines[0]["who"], lines[0]["authenticator"]) == ("key billing", "word")
    assert {(line["result"], line["status"], line["ingress"]) for line in lines} == {
        ("denied", 403, "brokers.default.ingress[0]")
    }


@pytest.mark.slow
@pytest.mark.spec("PO-01")
async def test_one_entry_that_allows_is_enough(tmp_path: Path) -> None:
    policies = (
        "{a: {brokers: [default], from: [ann], filters: [{exact: {type: a}}]}, "
        "b: {brokers: all, from: [ann], filters: [{exact: {type: b}}]}, "  # Knative's code stops at the first subject
        "c: {brokers: [default], from: [cid]}}"
    )
    cases = [("ann", "a", 202), ("ann", "b", 202), ("ann", "c", 403), ("cid", "a", 202), ("dan", "a", 403)]
    await _statuses(tmp_path, config(policies), *((who, {"type": type}, status) for who, type, status in cases))


@pytest.mark.spec("PO-01")
async def test_all_filters_of_an_entry_must_match(tmp_path: Path) -> None:
    entry = "{brokers: [default], filters: [{exact: {source: /billing}}, {cesql: \"type LIKE 'order.%'\"}]}"
    await _statuses(
        tmp_path,
        config(f"{{p: {entry}}}"),
        ("anyone", {"source": "/billing", "type": "order.x"}, 202),
        ("anyone", {"source": "/billing", "type": "x"}, 403),
        ("anyone", {"source": "/other", "type": "order.x"}, 403),
    )


@pytest.mark.slow
@pytest.mark.spec("PO-02")
async def test_claims_decide(tmp_path: Path) -> None:
    entry = (
        "{brokers: [default], claims: {iss: 'https://a.example', realm.roles: [writer, admin], "
        "'https://t.example/level': 3, verified: true}}"
    )
    good: dict[str, Any] = {
        "iss": "https://a.example",
        "realm": {"roles": ["reader", "writer"]},
        "https://t.example/level": 3,
        "verified": True,
    }
    cases: list[tuple[dict[str, Any], int]] = [
        (good, 202),
        ({**good, "realm": {"roles": "admin"}}, 202),
        ({**good, "realm": {"roles": []}}, 403),
        ({**good, "realm": {"roles": {"writer": True}}}, 403),
        ({**good, "realm": "roles"}, 403),
        ({**good, "realm": None}, 403),
        ({**good, "realm.roles": "reader"}, 403),  # the claim of the whole name decides
        ({**good, "https://t.example/level": "3"}, 403),
        ({**good, "https://t.example/level": 3.0}, 403),
        ({**good, "verified": 1}, 403),
        ({**good, "verified": "true"}, 403),
        ({**good, "iss": "https://b.example"}, 403),
        ({**good, "iss": ["https://b.example", "https://a.example"]}, 202),
        ({**good, "iss": [["https://a.example"]]}, 403),
        ({}, 403),
    ]
    text = config(f"{{p: {entry}}}")
    await _statuses(tmp_path, text, *(({"subject": "a", "claims": c}, {}, status) for c, status in cases))


@pytest.mark.slow
@pytest.mark.spec("PO-02")
async def test_an_entry_can_name_the_authenticator(tmp_path: Path) -> None:
    text = config("{p: {brokers: [default], from: [root], authenticator: second}}")
    async with running(text, tmp_path) as (rig, client):
        assert (await rig.post(client, "root", {}, by="second")).status_code == 202
        assert (await rig.post(client, "root", {}, by="word")).status_code == 403  # another one's `root`


@pytest.mark.slow
@pytest.mark.spec("PO-03")
async def test_a_broker_that_no_policy_names_takes_every_authenticated_sender(tmp_path: Path) -> None:
    text = config("{p: {brokers: [closed], from: [ann]}}", brokers=("default", "closed"))
    async with running(text, tmp_path) as (rig, client):
        assert (await rig.post(client, "bob", {})).status_code == 202
        assert (await rig.post(client, "bob", {}, broker="closed")).status_code == 403
        assert (await rig.post(client, "ann", {}, broker="closed")).status_code == 202
        assert (await rig.post(client, None, {})).status_code == 401
        assert rig.accepted() == 2


@pytest.mark.spec("PO-03")
async def test_ingress_and_broker_must_both_allow(tmp_path: Path) -> None:
    text = config("{p: {brokers: all, from: [ann, bob]}}", allow="[{from: [bob, cid]}]")
    await _statuses(tmp_path, text, ("ann", {}, 403), ("bob", {}, 202), ("cid", {}, 403))


@pytest.mark.slow
@pytest.mark.spec("PO-04")
async def test_senders_without_credentials_come_in_by_their_own_word_only(tmp_path: Path) -> None:
    def entry(subjects: str) -> str:
        return config(f"{{p: {{brokers: [default], {subjects}}}}}", more=", anonymous: true")

    text = entry("from: ['*']")
    async with running(text, tmp_path) as (rig, client):

        async def check(anonymous: int, named: int) -> None:
            assert (await rig.post(client, None, {})).status_code == anonymous
            assert (await rig.post(client, "anonymous", {})).status_code == named

        await check(403, 202)
        for closed in ("from: ['anon*']", "filters: [{exact: {type: t}}]"):
            await rig.reload(entry(closed))
            await check(403, 202)
        await rig.reload(entry("from: [anonymous]"))
        await check(202, 403)  # a subject of that name is somebody
        await rig.reload(entry("from: [anonymous, '*']"))
        await check(202, 202)
        await rig.reload(entry("from: [anonymous, ann], claims: {a: b}"))
        await check(403, 403)
        await rig.reload(entry("from: []"))
        await check(403, 403)


@pytest.mark.spec("PO-04")
async def test_an_ingress_without_credentials_can_be_limited_by_event(tmp_path: Path) -> None:
    listen = "ingress: [http: {listen: '127.0.0.1:0', allow: [{from: [anonymous], filters: [{exact: {type: t}}]}]}]"
    text = f"brokers: {{default: {{{listen}}}}}\n"
    await _statuses(tmp_path, text, (None, {}, 202), (None, {"type": "u"}, 403), ("ann", {}, 202))


@pytest.mark.slow
@pytest.mark.spec("PO-05")
async def test_of_a_batch_all_or_nothing_comes_in(tmp_path: Path) -> None:
    only_t = "{brokers: [default], from: [ann], filters: [{exact: {type: t}}]}"
    policies = f"{{p: {only_t}, secret: {{brokers: all, from: [bob]}}}}"
    async with running(config(policies), tmp_path) as (rig, client):
        answer = await rig.post(client, "ann", {"id": "1"}, {"id": "2", "type": "u"}, {"id": "3"})
        assert answer.status_code == 403
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"] == "event 1 of the batch: `ann` may not send this event here"
        assert "bob" not in answer.text
        assert "secret" not in answer.text
        assert rig.accepted() == 0
        assert (await rig.post(client, "ann", {"id": "1"}, {"id": "3"})).status_code == 202
        assert rig.accepted() == 2
        answer = await rig.post(client, "a\tn\u202en" * 100, {})
        assert len(answer.json()["detail"]) < 200
        assert "\u202e" not in answer.json()["detail"]


@pytest.mark.slow
@pytest.mark.spec("PO-10", "PO-12")
async def test_the_example_of_knatives_docs_lets_in_whom_it_says(tmp_path: Path) -> None:
    issuer = OwnIssuer()
    try:
        oidc = f"oidc: {{issuer: {issuer.url}, audience: {AUDIENCE}}}"
        ingress = f"ingress: [http: {{listen: '127.0.0.1:0', authenticate: [{oidc}]}}]"
        brokers = f"brokers: {{namespace-1.broker: {{{ingress}}}, namespace-1.other: {{{ingress}}}}}"
        async with running(f"include: ['{EXAMPLE}']\n{brokers}\n", tmp_path) as (rig, client):

            async def send(namespace: str, source: str, broker: str) -> int:
                name = f"system:serviceaccount:{namespace}:{source}-oidc-sources.knative.dev-pingsource"
                headers = {"authorization": f"Bearer {issuer.token(sub=name)}"}
                return (
                    await client.post(rig.url(f"namespace-1.{broker}"), headers={**headers, **JSON}, json=PING)
                ).status_code

            assert await send("namespace-2", "pingsource-2", "broker") == 202
            assert await send("namespace-1", "pingsource-1", "broker") == 403
            assert await send("namespace-1", "pingsource-1", "other") == 202  # the same namespace, the default
            assert await send("namespace-2", "pingsource-2", "other") == 403
            assert (await client.post(rig.url("namespace-1.broker"), headers=JSON, json=PING)).status_code == 401
    finally:
        issuer.stop()


@pytest.mark.slow
@pytest.mark.spec("PO-06")
async def test_a_filter_that_raises_allows_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    either = "[{any: [raises, {exact: {type: t}}]}]"
    for number, filters in enumerate(("[raises]", "[{exact: {type: t}}, raises]", "[{not: raises}]", either, "[odd]")):
        folder = tmp_path / str(number)
        folder.mkdir()
        await _statuses(folder, config(allow=f"[{{filters: {filters}}}]"), ("ann", {}, 403))
    assert "brokers.default.ingress[0].allow[0].filters[0] raised KeyError" in caplog.text
    folder = tmp_path / "both"
    folder.mkdir()
    both = "{a: {brokers: [default], filters: [raises]}, b: {brokers: [default], from: [ann]}}"
    await _statuses(folder, config(both), ("ann", {}, 202), ("bob", {}, 403))
    assert "policies.a.filters[0] raised KeyError" in caplog.text


@pytest.mark.slow
@pytest.mark.spec("FILT-11")
async def test_data_that_can_not_be_looked_at_is_not_allowed_by_a_filter_that_is_negated(tmp_path: Path) -> None:
    deep: Any = {}
    for _ in range(100):
        deep = {"secret": deep}
    await _statuses(
        tmp_path,
        config(allow="[{filters: [{not: {data: {secret: true}}}]}]"),
        ("ann", {"data": {"secret": False}}, 202),
        ("ann", {"data": {"secret": True}}, 403),
        ("ann", {"data": {}}, 202),
        ("ann", {"data": deep}, 403),
        ("ann", {"data": {"secret": "x" * 300_000}}, 403),
        ("ann", {"data": '{"secret": true}', "datacontenttype": "text/plain"}, 403),
        ("ann", {}, 202),
    )


@pytest.mark.spec("PO-07")
@pytest.mark.parametrize("where", ["policies", "allow"])
@pytest.mark.usefixtures("real_time")
async def test_a_reload_holds_for_connections_that_are_open(where: str, tmp_path: Path) -> None:
    """Senders keep their connections. What is answered 202 is accepted, all of it and nothing else."""
    if where == "policies":
        tight, loose = (config(f"{{p: {{brokers: [default], from: {who}}}}}") for who in ("[ann]", "[ann, bob]"))
    else:
        tight, loose = (config(allow=f"[{{from: {who}}}]") for who in ("[ann]", "[ann, bob]"))
    answers: dict[str, list[int]] = {"ann": [], "bob": []}
    done = False

    async with running(loose, tmp_path) as (rig, _):

        async def send(who: str) -> None:
            async with web.async_client(verify=False, timeout=60) as client:
                while not done:
                    answers[who].append((await rig.post(client, who, {})).status_code)

        async def more() -> None:
            counts = {who: len(found) + 20 for who, found in answers.items()}
            with anyio.fail_after(60):
                while any(len(answers[who]) < count for who, count in counts.items()):  # noqa: ASYNC110
                    await anyio.sleep(0.001)

        async with anyio.create_task_group() as tasks:
            for who in answers:
                tasks.start_soon(send, who)
            await more()
            for text, wanted in ((tight, 403), (loose, 202), (tight, 403), ("", 202)):
                await rig.reload(text or config())
                mark = len(answers["bob"]) + 1  # one may have been under way
                await more()
                assert set(answers["bob"][mark:]) == {wanted}
            done = True
        assert set(answers["ann"]) == {202}
        assert rig.accepted() == sum(found.count(202) for found in answers.values())


async def hold_one(rig: Any, client: Any, who: str) -> None:
    """An event of this sender comes in, and its delivery does not end."""
    rig.sink._hold = True
    assert (await rig.post(client, who, {})).status_code == 202
    with anyio.fail_after(60):
        while not rig.sink.held:  # noqa: ASYNC110
            await anyio.sleep(0.01)


@pytest.mark.slow
@pytest.mark.spec("PO-07")
async def test_an_ingress_that_is_replaced_keeps_the_new_policies_meanwhile(tmp_path: Path) -> None:
    """The rest of the reload waits for a delivery; what is closed does not."""
    loose = config("{p: {brokers: [default], from: [ann, bob]}}")
    tight = config("{p: {brokers: [default], from: [ann]}}", more=", auth_context: true").replace(
        "all: {", "all: {filter: {type: t}, "
    )
    async with running(loose, tmp_path) as (rig, client):
        await hold_one(rig, client, "bob")
        statuses, done = [], False
        async with anyio.create_task_group() as tasks:

            async def change() -> None:
                nonlocal done
                await rig.reload(tight)
                done = True

            tasks.start_soon(change)
            while not done and 403 not in statuses:
                statuses.append((await rig.post(client, "bob", {})).status_code)
            before_the_end = not done
            for _ in range(len(rig.sink.held)):
                rig.sink.answer()
        assert before_the_end
        assert statuses[-1] == 403


@pytest.mark.slow
@pytest.mark.spec("PO-07")
async def test_an_ingress_that_is_replaced_keeps_its_own_policies_meanwhile(tmp_path: Path) -> None:
    """The new config does without policies because it lets nobody in without credentials; the old ingress does."""
    old = config("{p: {brokers: [default], from: [ann]}}", more=", anonymous: true")
    new = config().replace("127.0.0.1:0", "127.0.0.2:0").replace("all: {", "all: {filter: {type: t}, ")
    async with running(old, tmp_path) as (rig, client):
        await hold_one(rig, client, "ann")
        ((ingress,),) = [broker.bound_sources for broker in rig.gateway.topology.brokers.values()]
        trigger = rig.gateway.topology.triggers["all"]
        assert isinstance(trigger, Trigger)
        stranger = {"ce-id": "1", "ce-specversion": "1.0", "ce-source": "/s", "ce-type": "t"}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(rig.reload, new)
            with anyio.fail_after(60):
                while trigger.subscription.room():  # noqa: ASYNC110 until the reload waits for the delivery
                    await anyio.sleep(0.01)
            answer = await client.post(ingress.source.address, headers=stranger)
            for _ in range(len(rig.sink.held)):
                rig.sink.answer()
        assert answer.status_code == 403


# -- the config -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("PO-08")
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (config("{p: {brokers: [defualt], from: [a]}}"), "policies.p.brokers[0]: there is no broker `defualt`"),
        (config("{p: {from: [a]}}"), "policies.p.brokers: "),
        (config("{p: {brokers: [], from: [a]}}"), "policies.p.brokers: "),
        (config("{p: {brokers: all, from: , filters: [{exact: {type: t}}]}}"), "policies.p.from: expected a list"),
        (config("{p: {brokers: all, from: [a], authenticator: null}}"), "policies.p.authenticator: expected text"),
        (config(allow="[]"), "brokers.default.ingress[0].http.allow: an empty list would let everyone in"),
        (config("{p: {brokers: some, from: [a]}}"), "policies.p.brokers: "),
        (config("{p: {brokers: all}}"), "policies.p: it does not say whom it allows"),
        (config("{p: {brokers: all, claims: {}}}"), "policies.p: it does not say whom it allows"),
        (config("{p: {brokers: all, from: ['a*b']}}"), "policies.p.from[0]: `*` may only be the last character"),
        (config("{p: {brokers: all, from: ['**']}}"), "policies.p.from[0]: `*` may only be the last character"),
        (config("{p: {brokers: all, from: ['']}}"), "policies.p.from[0]: a subject can't be empty"),
        (config("{p: {brokers: all, from: [7]}}"), "policies.p.from[0]: "),
        (config("{p: {brokers: all, claims: {a: []}}}"), "policies.p.claims.a: "),
        (config("{p: {brokers: all, claims: {a: {b: c}}}}"), "policies.p.claims.a: "),
        (
            config("{p: {brokers: all, filters: [{exactly: {a: b}}]}}"),
            "policies.p.filters[0]: unknown filter `exactly`",
        ),
        (config("{p: {brokers: all, form: [a]}}"), "policies.p.form: unknown key `form`"),
        (config("{p: {brokers: all, authenticator: third}}"), "brokers.default.ingress[0]: no sender can fulfil"),
        (config("{p: {brokers: all, from: [anonymous]}}"), "brokers.default.ingress[0]: no sender can fulfil"),
        (config(allow="[{}]"), "brokers.default.ingress[0].http.allow[0]: it does not say whom it allows"),
        (config(allow="[{from: [a], authenticator: third}]"), "brokers.default.ingress[0].http.allow: no sender can"),
    ],
)
def test_faults_of_policies(text: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_text(text, tmp_path)
    first = caught.value.faults[0]
    assert f"{first.path}: {first.message}".startswith(fault)
    assert all(f.line for f in caught.value.faults)


OPEN = "brokers: {default: {ingress: [INGRESS]}}\npolicies: {p: {brokers: [default], FROM}}\n"
HTTP = "http: {listen: '127.0.0.1:0'}"


@pytest.mark.spec("PO-08")
@pytest.mark.parametrize(
    ("ingress", "subjects", "fault"),
    [
        (HTTP, "from: ['*']", "no sender can fulfil a policy of the broker `default` (`p`) here"),
        (HTTP, "filters: [{exact: {type: t}}]", "no sender can fulfil"),
        (HTTP, "from: [anonymous], claims: {a: b}", "no sender can fulfil"),
        (HTTP, "from: [anonymous]", None),
        (HTTP, "from: []", None),
        ("http: {listen: '127.0.0.1:0', authenticate: [word]}", "from: [a]", None),
        ("unasked: {listen: '127.0.0.1:0'}", "from: [anonymous]", "`unasked` can't find out"),
    ],
)
def test_an_ingress_where_a_policy_cannot_hold_is_a_fault(
    ingress: str, subjects: str, fault: str | None, tmp_path: Path
) -> None:
    text = OPEN.replace("INGRESS", ingress).replace("FROM", subjects)
    if fault is None:
        load_text(text, tmp_path)
        return
    with pytest.raises(ConfigError) as caught:
        load_text(text, tmp_path)
    assert [f.path for f in caught.value.faults] == ["brokers.default.ingress[0]"]
    assert fault in caught.value.faults[0].message


@pytest.mark.spec("PO-08")
@pytest.mark.parametrize(
    ("name", "options"),
    [("kafka", "{bootstrap: '127.0.0.1:1', topic: t}"), ("websocket", "{url: 'ws://127.0.0.1:1/'}")],
)
def test_events_without_senders_are_not_subject_to_policies(name: str, options: str, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(OPEN.replace("INGRESS", f"{name}: {options}").replace("FROM", "from: [a]"))
    found, registry = load_all([file], Registry.installed(), {}), Registry.installed()
    assert any(w.message.startswith(f"events from `{name}` have no sender: the policies") for w in found.warnings)
    context = BuildContext("", tmp_path, SystemClock(), registry, broker="default", place=("brokers", "default"))
    assert admission(found.config, found.config.brokers["default"].ingress[0], context) is None


def test_a_scenario_has_no_senders_and_no_policies(tmp_path: Path) -> None:
    registry, file = Registry.installed(), tmp_path / "c.yaml"
    brokers = "brokers: {default: {ingress: [http: {allow: [{from: []}]}]}}\npolicies: {p: {brokers: all, from: []}}\n"
    event = "{event: {id: a, source: /s, type: t}}"
    file.write_text(f"{brokers}tests: {{it: {{events: [{event}], expect: {{accepted: 1}}}}}}\n")
    (result,) = run_cases(find_cases([file], registry, {}), registry)
    assert result.passed, result
