"""The authenticator `api_key`, at an HTTP ingress."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_auth.keys import add_key, remove_keys
from gateway_testing.suites import Kit

from gateway_core.contract.errors import StartError
from tests.auth.rig import ingress

pytestmark = pytest.mark.anyio


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit(tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def new(file: Path, name: str = "billing", **options: Any) -> str:
    return add_key(file, name, **options)[1]


@pytest.mark.spec("AU-03")
async def test_a_key_lets_its_sender_in_and_names_it(kit: Kit, file: Path) -> None:
    key, other = new(file), new(file, "orders/eu")
    async with ingress(kit, {"api_key": {"file": file}}) as http:
        for presented, name in ((key, "billing"), (other, "orders/eu"), (key, "billing")):
            assert await http.status(("X-API-Key", presented)) == 202
            assert http.last.identity is not None
            assert (http.last.identity.subject, http.last.identity.type) == (f"key {name}", "api_key")
            assert http.last.identity.authenticator == "api_key"
            assert http.last.identity.claims == {"id": presented[4:16]}


Wrong = Callable[[str], tuple[list[tuple[str, str]], str]]
WRONG: dict[str, Wrong] = {
    "none": lambda key: ([], ""),
    "empty": lambda key: ([("x-api-key", "")], ""),
    "another secret": lambda key: ([("x-api-key", key[:17] + "A" * 43)], ""),
    "another id": lambda key: ([("x-api-key", "tgk_0123456789ab" + key[16:])], ""),
    "cut off": lambda key: ([("x-api-key", key[:-1])], ""),
    "in upper case": lambda key: ([("x-api-key", key.upper())], ""),
    "with something after it": lambda key: ([("x-api-key", key + "A")], ""),
    "not ASCII": lambda key: ([("x-api-key", "tgk_ä")], ""),
    "60 KB": lambda key: ([("x-api-key", key * 1000)], ""),
    "two fields": lambda key: ([("x-api-key", key), ("x-api-key", key)], ""),
    "a right and a wrong field": lambda key: ([("x-api-key", key), ("x-api-key", "no")], ""),
    "as a bearer token": lambda key: ([("authorization", f"Bearer {key}")], ""),
    "in the query": lambda key: ([], f"x-api-key={key}"),
    "as a password": lambda key: ([("authorization", f"Basic {key}")], ""),
}


@pytest.mark.spec("AU-03")
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
async def test_all_else_is_refused(kit: Kit, file: Path, wrong: Wrong) -> None:
    key = new(file)
    headers, query = wrong(key)
    async with ingress(kit, {"api_key": {"file": file}}) as http:
        assert await http.status(("x-api-key", key)) == 202
        answer = await http.post(*headers, query=query)
        assert answer.status_code == 401
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["www-authenticate"] == 'ApiKey realm="tidegate", header="x-api-key"'
        assert key[17:] not in answer.text
        assert len(http.intake.events) == 1
        assert key[17:] not in str(http.intake.refused)


@pytest.mark.spec("AU-03")
async def test_a_key_that_has_expired_was_revoked_or_is_of_another_ingress_is_refused(
    kit: Kit, file: Path, tmp_path: Path
) -> None:
    now = datetime.now(UTC)
    expired, valid = new(file, expires=now - timedelta(seconds=1)), new(file, expires=now + timedelta(hours=1))
    revoked, foreign = new(file), new(tmp_path / "others.json")
    remove_keys(file, [revoked[4:16]])
    async with ingress(kit, {"api_key": {"file": file}}) as http:
        assert await http.status(("x-api-key", valid)) == 202
        for key in (expired, revoked, foreign):
            answer = await http.post(("x-api-key", key))
            assert answer.status_code == 401
            assert ("expired" in answer.json()["detail"]) == (key is expired)


@pytest.mark.spec("AU-03")
@pytest.mark.usefixtures("real_time")
async def test_a_key_expires_while_it_is_used(kit: Kit, file: Path) -> None:
    key = new(file, expires=datetime.now(UTC) + timedelta(seconds=2))
    async with ingress(kit, {"api_key": {"file": file}}) as http:
        assert await http.status(("x-api-key", key)) == 202
        await http.until(401, ("x-api-key", key))


@pytest.mark.spec("AU-04")
async def test_other_places_for_a_key(kit: Kit, file: Path) -> None:
    key = new(file)
    options = {"file": file, "header": "X-Our-Key", "bearer": True, "query": "key"}
    async with ingress(kit, {"api_key": options}) as http:
        header, bearer = ("x-our-key", key), ("authorization", f"bearer {key}")
        assert await http.status(header) == 202
        assert await http.status(bearer) == 202
        assert await http.status(query=f"a=b&key={key}") == 202
        assert await http.status(query=f"k%65y={key.replace('_', '%5F')}") == 202
        for status, headers, query in (
            (401, [header, bearer], ""),
            (401, [header], f"key={key}"),
            (401, [bearer], f"key={key}"),
            (401, [], f"key={key}&key={key}"),
            (401, [], "key="),
            (401, [("x-api-key", key)], ""),
            (401, [("authorization", "Bearer tgk_")], ""),
        ):
            answer = await http.post(*headers, query=query)
            assert answer.status_code == status, (headers, query)
            assert key not in answer.text


@pytest.mark.spec("AU-04")
async def test_bearer_tokens_of_others_are_left_to_others(kit: Kit, file: Path, tmp_path: Path) -> None:
    key, later = new(file), new(tmp_path / "later.json", "later")
    one: dict[str, Any] = {"api_key": {"file": file, "bearer": True}}
    two: dict[str, Any] = {"api_key": {"file": tmp_path / "later.json", "header": "x-later"}}
    async with ingress(kit, one, two) as http:
        other_token = ("authorization", "Bearer eyJhbGciOiJub25lIn0.e30.")
        assert (await http.post(other_token)).json()["detail"] == "the request has no credentials"
        assert await http.status(other_token, ("x-later", later)) == 202
        assert await http.status(("authorization", f"Bearer {key}")) == 202


@pytest.mark.spec("AU-04")
async def test_anonymous_senders_may_come_in_beside_keys_but_not_with_wrong_ones(kit: Kit, file: Path) -> None:
    key = new(file)
    async with ingress(kit, {"api_key": {"file": file}}, anonymous=True) as http:
        assert await http.status() == 202
        assert http.last.identity is not None
        assert http.last.identity.type == "unauthenticated"
        assert await http.status(("x-api-key", key)) == 202
        assert await http.status(("x-api-key", "no")) == 401


@pytest.mark.spec("AU-05")
@pytest.mark.usefixtures("real_time")
async def test_changes_of_the_file_are_noticed(kit: Kit, file: Path) -> None:
    old = new(file)
    async with ingress(kit, {"api_key": {"file": file}}) as http:
        assert await http.status(("x-api-key", old)) == 202
        later = new(file)
        await http.until(202, ("x-api-key", later))
        assert await http.status(("x-api-key", old)) == 202
        remove_keys(file, [old[4:16]])
        await http.until(401, ("x-api-key", old))
        assert await http.status(("x-api-key", later)) == 202
        remove_keys(file, [later[4:16]])
        await http.until(401, ("x-api-key", later))


@pytest.mark.spec("AU-05")
@pytest.mark.parametrize("broken", [b"", b"{", b'{"keys": [{}]}'], ids=["empty", "cut off", "wrong"])
@pytest.mark.usefixtures("real_time")
async def test_a_broken_file_changes_nothing(
    kit: Kit, file: Path, broken: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    key = new(file)
    whole = file.read_bytes()
    async with ingress(kit, {"api_key": {"file": file}}) as http:
        file.write_bytes(broken)
        with anyio.fail_after(30):
            while "stay in use" not in caplog.text:
                assert await http.status(("x-api-key", key)) == 202
                await anyio.sleep(0.05)
        assert await http.status(("x-api-key", key)) == 202
        assert str(file) in caplog.text
        assert caplog.text.count("stay in use") == 1
        file.write_bytes(whole)
        later = new(file)
        await http.until(202, ("x-api-key", later))
        assert await http.status(("x-api-key", key)) == 202


@pytest.mark.spec("AU-05")
async def test_without_a_file_of_keys_nothing_starts(kit: Kit, file: Path) -> None:
    for content in (None, b"{}"):
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(BaseException) as failed:
            async with ingress(kit, {"api_key": {"file": file}}):
                pass
        (error,) = failed.value.exceptions if isinstance(failed.value, BaseExceptionGroup) else [failed.value]
        assert isinstance(error, StartError)
        assert str(file) in str(error)


@pytest.mark.spec("AU-03")
async def test_keys_are_compared_in_constant_time_whether_the_id_is_known_or_not(kit: Kit, file: Path) -> None:
    key = new(file)
    compared: list[str] = []

    def profile(frame: Any, event: str, called: Any) -> None:
        if event == "c_call" and called.__name__.endswith("compare_digest"):
            compared.append(called.__name__)

    async with ingress(kit, {"api_key": {"file": file}}) as http:
        for presented in (key[:17] + "A" * 43, "tgk_0123456789ab" + key[16:]):
            compared.clear()
            sys.setprofile(profile)
            try:
                assert await http.status(("x-api-key", presented)) == 401
            finally:
                sys.setprofile(None)
            assert len(compared) == 1


@pytest.mark.parametrize("header", ["Authorization", "ce-type", "content-type", "a b", ""])
def test_headers_that_are_used_otherwise_can_have_no_key(kit: Kit, file: Path, header: str) -> None:
    from gateway_auth.config import ApiKeyConfig

    with pytest.raises(ValueError, match=r"header"):
        ApiKeyConfig(file=file, header=header)
