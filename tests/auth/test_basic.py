"""The authenticator `basic`, at an HTTP ingress."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from gateway_auth.passwords import hash_of, set_password
from gateway_testing.suites import Kit

from gateway_core.contract.event import Message
from gateway_core.contract.identity import Identity
from tests import web
from tests.auth.rig import EVENT, STRUCTURED, Ingress, basic, ingress

pytestmark = pytest.mark.anyio

CHEAP, DEAR = 4, 14


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "users.json"


def add(file: Path, name: str, password: str, ln: int = CHEAP) -> None:
    set_password(file, name, hash_of(password.encode(), ln))


async def statuses(http: Ingress, requests: list[tuple[str, str]]) -> list[int]:
    """Sends all at once."""
    found: list[int] = []

    async def send(header: tuple[str, str]) -> None:
        found.append(await http.status(header))

    async with anyio.create_task_group() as tasks:
        for header in requests:
            tasks.start_soon(send, header)
    return sorted(found)


@pytest.mark.spec("AU-06")
async def test_a_password_lets_its_user_in(kit: Kit, file: Path) -> None:
    add(file, "Jürgen", "pass:wörd")
    async with ingress(kit, {"basic": {"file": file, "realm": "orders"}}) as http:
        for _ in range(2):  # checked, then remembered
            assert await http.status(basic("Jürgen", "pass:wörd")) == 202
            assert http.last.identity is not None
            assert (http.last.identity.subject, http.last.identity.type) == ("user Jürgen", "user")
        scheme, token = basic("Jürgen", "pass:wörd")[1].split()
        assert await http.status(("Authorization", f"{scheme.upper()}   {token}")) == 202
        answer = await http.post()
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == 'Basic realm="orders", charset="UTF-8"'


WRONG: dict[str, list[tuple[str, str]]] = {
    "another password": [basic("ann", "Right")],
    "no password": [basic("ann", "")],
    "the hash": [basic("ann", "$scrypt$")],
    "another user": [basic("bob", "right")],
    "no user": [basic("", "right")],
    "a long password": [basic("ann", "x" * 2000)],
    "60 KB": [basic("ann", "x" * 45_000)],
    "not Base64": [("authorization", "Basic ann:right")],
    "not UTF-8": [("authorization", "Basic /////zpyaWdodA==")],
    "no colon": [("authorization", "Basic YW5ucmlnaHQ=")],
    "nothing": [("authorization", "Basic")],
    "two fields": [basic("ann", "right"), basic("ann", "right")],
    "another scheme beside it": [("authorization", "Bearer abc"), basic("ann", "right")],
}


@pytest.mark.spec("AU-06")
@pytest.mark.parametrize("headers", WRONG.values(), ids=WRONG)
async def test_all_else_is_refused(kit: Kit, file: Path, headers: list[tuple[str, str]]) -> None:
    add(file, "ann", "right")
    async with ingress(kit, {"basic": {"file": file}}) as http:
        for _ in range(2):
            answer = await http.post(*headers)
            assert answer.status_code == 401
            assert "right" not in answer.text
        assert http.intake.events == []
        assert await http.status(basic("ann", "right")) == 202


@pytest.mark.slow
@pytest.mark.spec("AU-07")
async def test_a_flood_of_wrong_passwords_keeps_few_cores_busy_and_no_known_sender_out(kit: Kit, file: Path) -> None:
    add(file, "ann", "right", DEAR)
    options = {"file": file, "max_checks": 1, "max_waiting": 2}
    async with ingress(kit, {"basic": options}) as http:
        assert await http.status(basic("ann", "right")) == 202
        # those of unknown users cost as much, so that nobody learns which users there are
        flood = [basic(("ann", "bob")[n % 2], str(n)) for n in range(20)]
        found = await statuses(http, [*flood, *[basic("ann", "right")] * 20])
        assert found.count(202) == 20
        assert found.count(503) >= 10
        assert found.count(401) >= 3
        assert found.count(503) + found.count(401) == 20


@pytest.mark.slow
@pytest.mark.spec("AU-07")
async def test_a_flood_from_one_address_keeps_out_no_new_sender_from_another(kit: Kit, file: Path) -> None:
    add(file, "ann", "right", DEAR)
    found: list[int] = []
    refused = anyio.Event()
    async with ingress(kit, {"basic": {"file": file, "max_checks": 1, "max_waiting": 4}}) as http:

        async def guess(number: int) -> None:
            found.append(await http.status(basic("ann", str(number))))
            refused.set()

        transport = httpx.AsyncHTTPTransport(local_address="127.0.0.2")
        async with web.async_client(transport=transport, timeout=60) as elsewhere, anyio.create_task_group() as flood:
            for number in range(20):
                flood.start_soon(guess, number)
            await refused.wait()
            headers = [STRUCTURED, basic("ann", "right")]
            assert (await elsewhere.post(http.source.address, content=EVENT, headers=headers)).status_code == 202
            assert found.count(401) <= 3  # in turn, not at the end
    assert (found.count(503), found.count(401)) == (16, 4)


@pytest.mark.spec("AU-07")
@pytest.mark.usefixtures("real_time")
async def test_a_changed_file_forgets_only_passwords_that_changed(kit: Kit, file: Path) -> None:
    """Else a flood would keep out known senders whenever somebody adds a user."""
    add(file, "ann", "right", DEAR)
    add(file, "eve", "right")
    async with ingress(kit, {"basic": {"file": file, "max_checks": 1, "max_waiting": 0}}) as http:
        assert [await http.status(basic(name, "right")) for name in ("ann", "eve")] == [202, 202]
        add(file, "eve", "other")
        await http.until(202, basic("eve", "other"))
        assert await http.status(basic("eve", "right")) == 401
        assert await statuses(http, [basic("ann", "wrong"), basic("ann", "right")]) == [202, 401]


@pytest.mark.slow
@pytest.mark.spec("AU-07")
async def test_requests_with_the_same_password_share_a_check(kit: Kit, file: Path) -> None:
    add(file, "ann", "right", DEAR)
    options = {"file": file, "max_checks": 1, "max_waiting": 0}
    async with ingress(kit, {"basic": options}) as http:
        assert await statuses(http, [basic("ann", "right")] * 30) == [202] * 30
        assert await statuses(http, [basic("ann", "wrong")] * 30) == [401] * 30


@pytest.mark.slow
@pytest.mark.spec("AU-07")
@pytest.mark.parametrize("begun", [False, True])
async def test_a_check_that_is_cancelled_leaves_nothing(kit: Kit, file: Path, begun: bool) -> None:
    add(file, "ann", "right", DEAR if begun else CHEAP)
    made = kit.authenticator("basic", {"file": file, "max_checks": 1, "max_waiting": 0})
    name, value = basic("ann", "right")
    request = Message([(name.encode(), value.encode())], b"")

    async def ask() -> Any:
        found: Any = made.authenticate(request)
        return found if isinstance(found, Identity) else await found

    async with anyio.create_task_group() as tasks:
        await made.start(tasks)
        if begun:
            async with anyio.create_task_group() as cancelled:
                cancelled.start_soon(ask)
                await anyio.wait_all_tasks_blocked()
                cancelled.cancel_scope.cancel()
        else:
            pending: Any = made.authenticate(request)  # and its task never runs
            pending.close()
        with anyio.fail_after(60):
            assert (await ask()).subject == "user ann"
        await made.stop()


@pytest.mark.spec("AU-07")
@pytest.mark.usefixtures("real_time")
async def test_a_changed_file_forgets_passwords(kit: Kit, file: Path) -> None:
    add(file, "ann", "one")
    async with ingress(kit, {"basic": {"file": file}}) as http:
        assert await http.status(basic("ann", "one")) == 202
        assert await http.status(basic("ann", "two")) == 401
        add(file, "ann", "two")
        await http.until(202, basic("ann", "two"))
        assert await http.status(basic("ann", "one")) == 401
        file.write_text('{"users": {}}')
        await http.until(401, basic("ann", "two"))


_REST = "$c2FsdHNhbHRzYWx0$" + "A" * 43
BAD = ["", "plain", "$2b$12$abc", f"$scrypt$ln=30,r=8,p=1{_REST}", f"$scrypt$ln=0,r=8,p=1{_REST}"]


@pytest.mark.parametrize("hashed", BAD)
async def test_a_hash_that_can_not_be_used_is_named_but_not_shown(kit: Kit, file: Path, hashed: str) -> None:
    import json

    file.write_text(json.dumps({"users": {"ann": hashed}}))
    with pytest.raises(BaseException) as failed:
        async with ingress(kit, {"basic": {"file": file}}):
            pass
    (error,) = failed.value.exceptions if isinstance(failed.value, BaseExceptionGroup) else [failed.value]
    assert "'ann'" in str(error)
    assert not hashed or hashed not in str(error)


async def test_keys_and_passwords_at_one_ingress(kit: Kit, file: Path, tmp_path: Path) -> None:
    from gateway_auth.keys import add_key

    add(file, "ann", "right")
    key = add_key(tmp_path / "keys.json", "billing")[1]
    both: list[dict[str, Any]] = [{"basic": {"file": file}}, {"api_key": {"file": tmp_path / "keys.json"}}]
    async with ingress(kit, *both) as http:
        assert await http.status(("x-api-key", key)) == 202
        assert await http.status(basic("ann", "right")) == 202
        assert len((await http.post()).headers.get_list("www-authenticate")) == 2
