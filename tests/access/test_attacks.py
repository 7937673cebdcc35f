"""Attacks on an ingress, one row each: what the attacker sends, and what comes of it.

To add one: a row in `ATTACKS`, with how the ingress is closed, the attack, and the answer. Each row also shows that the
same ingress lets in who may send, so that no row passes because all are refused. `test_signed_attacks.py` has the table
for signatures and client certificates.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests.access.attacks import Lab, own_issuer, started
from tests.oidc.issuer import OwnIssuer, ec_key, encoded, forged, signed

pytestmark = pytest.mark.anyio


class Attack(NamedTuple):
    """`closed` sets the options of the ingress, `attack` sends, `status` and `says` (in the problem) is the answer,
    `valid` sends as someone who may; None if nobody can at that time."""

    closed: Callable[[Lab], None]
    attack: Callable[[Lab], Awaitable[httpx.Response]]
    status: int
    says: str
    valid: Callable[[Lab], Awaitable[httpx.Response]] | None


# -- tokens of OpenID Connect --------------------------------------------------------------------------------------


def tokens(lab: Lab) -> None:
    lab.tokens()


async def with_token(lab: Lab) -> httpx.Response:
    return await lab.bearer(lab.issuer.token())


def token(says: str, make: Callable[[OwnIssuer], str], status: int = 401) -> Attack:
    """An attack that is a token."""
    return Attack(tokens, lambda lab: lab.bearer(make(lab.issuer)), status, says, with_token)


async def no_token(lab: Lab) -> httpx.Response:
    return await lab.post()


async def token_in_the_query(lab: Lab) -> httpx.Response:
    return await lab.post(path=f"?access_token={lab.issuer.token()}")


async def token_in_the_body(lab: Lab) -> httpx.Response:
    return await lab.post({"content-type": "application/x-www-form-urlencoded"}, data={"access_token": "x"})


async def two_tokens(lab: Lab) -> httpx.Response:
    assert lab.client is not None
    twice = [("authorization", f"Bearer {lab.issuer.token()}"), ("authorization", "Bearer x")]
    return await lab.client.post("", headers=twice)


async def token_and_password(lab: Lab) -> httpx.Response:
    assert lab.client is not None
    both = [("authorization", "Basic YTpi"), ("authorization", f"Bearer {lab.issuer.token()}")]
    return await lab.client.post("", headers=both)


async def ten_megabytes(lab: Lab) -> httpx.Response:
    return await lab.bearer("x" * 10_000_000)


def none(issuer: OwnIssuer) -> str:
    return f"{encoded({'alg': 'none'})}.{encoded(issuer.claims())}."


def unsigned(issuer: OwnIssuer) -> str:
    return issuer.token().rpartition(".")[0] + "."


def promoted(issuer: OwnIssuer) -> str:
    """A valid token with another subject."""
    header, _, signature = issuer.token().split(".")
    return f"{header}.{encoded(issuer.claims(sub='admin'))}.{signature}"


def hmac_with_public_key(issuer: OwnIssuer) -> str:
    return forged(issuer.claims(), issuer.keys[0].as_pem(), issuer.keys[0].kid)  # type: ignore[union-attr]


def own_key_under_their_name(issuer: OwnIssuer) -> str:
    return signed(issuer.claims(), ec_key("ec"), "ES256")


def own_key_inside(issuer: OwnIssuer) -> str:
    key = ec_key("ec")
    return signed(issuer.claims(), key, "ES256", {"jwk": key.as_dict(private=False)})


def own_key_elsewhere(issuer: OwnIssuer) -> str:
    return signed(issuer.claims(), ec_key("ec"), "ES256", {"jku": f"{issuer.url}/evil", "x5u": f"{issuer.url}/evil"})


async def until_status(lab: Lab, status: int, token: str = "") -> httpx.Response:
    """Sends with a valid token until it is answered so."""
    end = time.monotonic() + 60
    while (answer := await lab.bearer(token or lab.issuer.token())).status_code != status:
        assert time.monotonic() < end, answer.text
    return answer


async def unknown_key_and_issuer_away(lab: Lab) -> httpx.Response:
    await until_status(lab, 202)
    lab.issuer.stop()
    return await lab.bearer(lab.issuer.token(ec_key("new")))


async def wrong_signature_and_issuer_away(lab: Lab) -> httpx.Response:
    await until_status(lab, 202)
    lab.issuer.stop()
    return await lab.bearer(own_key_under_their_name(lab.issuer))


async def keys_too_old(lab: Lab) -> httpx.Response:
    token = lab.issuer.token()
    await until_status(lab, 202, token)
    lab.issuer.stop()
    return await until_status(lab, 503, token)


def away(lab: Lab) -> None:
    lab.tokens(keys_max_age_s=0.5, refresh_s=0.2)


def slow(lab: Lab) -> None:
    lab.tokens(timeout_s=0.5)
    lab.kept["release"] = threading.Event()


async def unknown_key_and_slow_issuer(lab: Lab) -> httpx.Response:
    await until_status(lab, 202)

    def wait(request: object) -> bool:
        lab.kept["release"].wait(60)
        return False

    lab.issuer.fault = wait
    answer = await lab.bearer(lab.issuer.token(ec_key("new")))
    assert (await lab.bearer(lab.issuer.token(sub="others"))).status_code == 202, "others are not held up"
    lab.kept["release"].set()
    lab.issuer.fault = None
    return answer


async def never_reached(lab: Lab) -> httpx.Response:
    return await with_token(lab)


def unreachable(lab: Lab) -> None:
    lab.tokens()
    lab.issuer.stop()


# -- policies --------------------------------------------------------------------------------------------------------


def ruled(*policies: str, allow: str = "") -> Callable[[Lab], None]:
    """Closes the broker `default` by policies, and another broker `other` by none; `orders` may send to the first."""

    def close(lab: Lab) -> None:
        lab.tokens()
        ingress = f"[http: {{listen: '127.0.0.1:0', {lab.options}}}]"
        (lab.folder / "other.yaml").write_text(f"brokers: {{other: {{ingress: {ingress}}}}}\n")
        lines = [f"  p{number}: {policy}" for number, policy in enumerate(policies)]
        lab.sections = "\n".join(["include: [other.yaml]", *(["policies:", *lines] if lines else [])])
        if allow:
            lab.options += f", allow: {allow}"

    return close


def sends(sub: str, **attributes: str) -> Callable[[Lab], Awaitable[httpx.Response]]:
    """Sends an event, with these attributes changed, as this subject."""

    async def post(lab: Lab) -> httpx.Response:
        said = {f"ce-{name}": value for name, value in attributes.items()}
        return await lab.post({**said, "authorization": f"Bearer {lab.issuer.token(sub=sub)}"})

    return post


def structured(sub: str, *events: dict[str, str]) -> Callable[[Lab], Awaitable[httpx.Response]]:
    """Sends events in JSON, several as a batch."""

    async def post(lab: Lab) -> httpx.Response:
        assert lab.client is not None
        form, body = ("-batch", events) if len(events) > 1 else ("", events[0])
        headers = {"authorization": f"Bearer {lab.issuer.token(sub=sub)}"}
        headers["content-type"] = f"application/cloudevents{form}+json"
        return await lab.client.post("", headers=headers, json=body)

    return post


OF_SHOP = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "order.placed"}
OLD = {"cloudEventsVersion": "0.1", "eventID": "1", "source": "/shop", "eventType": "order.secret"}
PAIRED = (
    "{brokers: [default], from: [orders], filters: [{exact: {source: /shop}}]}",
    "{brokers: [default], from: [bills], filters: [{exact: {source: /bills}}]}",
)
EXACT = ruled("{brokers: [default], from: [orders]}")
SPACE = ruled("{brokers: [default], from: ['orders', 'system:serviceaccount:shop:*']}")
TYPES = ruled("{brokers: [default], from: [orders], filters: [{exact: {type: order.placed}}]}")
CLAIMS = ruled("{brokers: [default], from: ['*'], claims: {sub: orders, aud: gateway}}")
MAY_NOT = "may not send this event here"
POLICY_ATTACKS: dict[str, Attack] = {
    "policy for another broker": Attack(
        ruled("{brokers: [other], from: [bills]}", "{brokers: [default], from: [orders]}"),
        *(sends("bills"), 403, MAY_NOT, with_token),
    ),
    "forged source": Attack(ruled(*PAIRED), sends("bills", source="/shop"), 403, MAY_NOT, with_token),
    "forged source, in JSON": Attack(ruled(*PAIRED), structured("bills", OF_SHOP), 403, MAY_NOT, with_token),
    "source with a suffix": Attack(ruled(*PAIRED), sends("orders", source="/shop/../bills"), 403, MAY_NOT, with_token),
    "source in other case": Attack(ruled(*PAIRED), sends("orders", source="/Shop"), 403, MAY_NOT, with_token),
    "subject with a suffix": Attack(EXACT, sends("orders-evil"), 403, MAY_NOT, with_token),
    "subject with a space": Attack(EXACT, sends("orders "), 401, "no usable subject", with_token),
    "subject in other case": Attack(EXACT, sends("Orders"), 403, MAY_NOT, with_token),
    "subject that looks alike": Attack(EXACT, sends("\u043erders"), 403, MAY_NOT, with_token),
    "subject `*`": Attack(EXACT, sends("*"), 403, MAY_NOT, with_token),
    "subject `anonymous`": Attack(
        ruled("{brokers: all, from: [anonymous, orders]}"), sends("anonymous"), 403, MAY_NOT, with_token
    ),
    "another namespace with the same beginning": Attack(
        SPACE, sends("system:serviceaccount:shopping:orders"), 403, MAY_NOT, with_token
    ),
    "batch with one forbidden event": Attack(
        TYPES, structured("orders", OF_SHOP, {**OF_SHOP, "type": "x"}, OF_SHOP), 403, "event 1 of the batch", with_token
    ),
    "type under an older version's name": Attack(TYPES, structured("orders", OLD), 403, MAY_NOT, with_token),
    "claim of another name": Attack(CLAIMS, sends("bills"), 403, MAY_NOT, with_token),
    "subject of another authenticator": Attack(
        ruled("{brokers: [default], from: ['key billing'], authenticator: api_key}", "{brokers: all, from: [orders]}"),
        *(sends("key billing"), 401, "the token's subject could be taken for one of another authenticator", with_token),
    ),
    "ingress of another sender": Attack(
        ruled(allow="[{from: [orders], filters: [{prefix: {type: order.}}]}]"),
        *(sends("bills"), 403, MAY_NOT, with_token),
    ),
    "allowed at the ingress, not by the broker": Attack(
        ruled("{brokers: [default], from: [orders]}", allow="[{from: [orders, bills]}]"),
        *(sends("bills"), 403, MAY_NOT, with_token),
    ),
}

UNKNOWN = "the token is signed with a key that the issuer does not publish"
ATTACKS: dict[str, Attack] = {
    "no token": Attack(tokens, no_token, 401, "the request has no credentials", with_token),
    "token in the query": Attack(tokens, token_in_the_query, 401, "the request has no credentials", with_token),
    "token in the body": Attack(tokens, token_in_the_body, 401, "the request has no credentials", with_token),
    "two tokens": Attack(tokens, two_tokens, 401, "the request has more than one `Authorization`", with_token),
    "token and password": Attack(tokens, token_and_password, 401, "more than one `Authorization`", with_token),
    "expired": token("the token has expired", lambda i: i.token(exp=int(time.time()) - 60)),
    "never expires": token("the token does not say when it expires", lambda i: i.token(exp=None)),
    "nbf in the future": token("the token is not valid yet", lambda i: i.token(nbf=int(time.time()) + 600)),
    "wrong audience": token("the token is for another audience", lambda i: i.token(aud="another")),
    "no audience": token("the token is for another audience", lambda i: i.token(aud=None)),
    "wrong issuer": token("the token is from another issuer", lambda i: i.token(iss="https://evil.example")),
    "no subject": token("the token has no usable subject", lambda i: i.token(sub=None)),
    "alg none": token("the token is signed with an algorithm that is not allowed", none),
    "no signature": token("the token's signature is wrong", unsigned),
    "changed subject": token("the token's signature is wrong", promoted),
    "HS256 with the public key": token(
        "the token is signed with an algorithm that is not allowed", hmac_with_public_key
    ),
    "unknown kid": token(UNKNOWN, lambda i: i.token(ec_key("unknown"))),
    "own key under a known kid": token("the token's signature is wrong", own_key_under_their_name),
    "own key in `jwk`": token("the token's signature is wrong", own_key_inside),
    "own key at `jku`": token("the token's signature is wrong", own_key_elsewhere),
    "no token at all": token("the token is not a signed JSON Web Token", lambda i: "opaque"),
    "longer than 8 KiB": token("the token is too long", lambda i: i.token(filling="x" * 8192)),
    "10 MB": Attack(tokens, ten_megabytes, 431, "", with_token),
    "unknown kid, issuer away": Attack(
        tokens, unknown_key_and_issuer_away, 503, "the issuer's keys are not available", with_token
    ),
    "wrong signature, issuer away": Attack(
        tokens, wrong_signature_and_issuer_away, 401, "the token's signature is wrong", with_token
    ),
    "keys too old, issuer away": Attack(away, keys_too_old, 503, "the issuer's keys are not available", None),
    "issuer never reached": Attack(unreachable, never_reached, 503, "the issuer's keys are not available", None),
    "unknown kid, slow issuer": Attack(
        slow, unknown_key_and_slow_issuer, 503, "the issuer's keys are not available", with_token
    ),
    **POLICY_ATTACKS,
}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path, own_issuer())
    yield made
    made.issuer.stop()


@pytest.mark.slow
@pytest.mark.spec("OI-12", "OI-06")
@pytest.mark.parametrize("name", ATTACKS)
async def test_the_attack_is_refused(name: str, lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    row = ATTACKS[name]
    row.closed(lab)
    async with started(lab):
        try:
            answer = await row.attack(lab)
        except httpx.WriteError:  # the server reads no further
            answer = httpx.Response(row.status)
        assert answer.status_code == row.status, answer.text
        assert row.says in answer.text
        assert row.status != 403 or lab.accepted == 0, "a part of a batch"
        before = lab.accepted
        if row.valid is not None:
            assert (await row.valid(lab)).status_code == 202
            assert lab.accepted == before + 1
        if answer.status_code == 503:
            assert int(answer.headers["retry-after"]) >= 1
    assert "eyJ" not in answer.text + caplog.text, "a part of a token"


@pytest.mark.slow
@pytest.mark.spec("OI-06")
async def test_the_answer_says_what_is_asked_for(lab: Lab) -> None:
    lab.tokens()
    async with started(lab):
        assert (await lab.post()).headers["www-authenticate"] == 'Bearer realm="tidegate"'
        wrong = await lab.bearer(lab.issuer.token(exp=1))
        assert wrong.headers["www-authenticate"] == (
            'Bearer realm="tidegate", error="invalid_token", error_description="the token has expired"'
        )
        assert wrong.headers["content-type"] == "application/problem+json"


@pytest.mark.slow
@pytest.mark.spec("OI-12")
async def test_nobody_can_claim_to_be_another(lab: Lab) -> None:
    """Attributes of the identity that the sender wrote are replaced with what its token says."""
    lab.tokens()
    lab.options += ", auth_context: true"
    kept = lab.folder / "events.jsonl"
    lab.sections = f"triggers: {{all: {{subscriber: {{file: {{path: '{kept}'}}}}}}}}"
    claimed = {"ce-authid": "admin", "ce-authtype": "system", "ce-authclaims": "{}", "ce-subject": "admin"}
    async with started(lab):
        who = {"authorization": f"Bearer {lab.issuer.token(sub='system:serviceaccount:shop:orders')}"}
        assert (await lab.post({**claimed, **who})).status_code == 202
        end = time.monotonic() + 60
        while not kept.exists() or not kept.read_text().endswith("\n"):
            assert time.monotonic() < end
            await lab.post()
    event = httpx.Response(200, text=kept.read_text().splitlines()[0]).json()
    assert (event["authid"], event["authtype"]) == ("system:serviceaccount:shop:orders", "service_account")
    assert "authclaims" not in event
    assert event["subject"] == "admin", "is the event's, not the sender's"


@pytest.mark.slow
@pytest.mark.spec("OI-01")
async def test_of_several_issuers_any_may_accept(lab: Lab) -> None:
    other = own_issuer()
    try:
        both = ", ".join(
            f"oidc: {{issuer: {i.url}, audience: gateway, subject_prefix: '{n}:'}}"
            for n, i in enumerate((lab.issuer, other))
        )
        lab.options = f"authenticate: [{both.replace(', oidc:', '}, {oidc:').join(('{', '}'))}], anonymous: true"
        async with started(lab):
            for issuer in (lab.issuer, other):
                assert (await lab.bearer(issuer.token())).status_code == 202
                assert (await lab.bearer(issuer.token(exp=1))).status_code == 401
            assert (await lab.bearer(lab.issuer.token(iss="https://evil.example"))).status_code == 401
            assert (await lab.post()).status_code == 202, "anyone may send without a token"
            other.stop()
            assert (await lab.bearer(other.token(ec_key("new")))).status_code == 503
    finally:
        other.stop()
