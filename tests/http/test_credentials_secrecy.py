"""Outgoing credentials show up nowhere, and go nowhere else."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from gateway_testing import GatewayProcess, Subscriber
from gateway_testing.subscriber import Answer, Received

from gateway_core.config.registry import Registry
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.configs import load_all
from gateway_core.contract.errors import ConfigError
from gateway_core.contract.settings import Settings
from gateway_core.runtime.gateway import Gateway
from tests import web
from tests.admin_routes import all_routes
from tests.command_line import tidegate
from tests.twins import twins

TOKEN, SECRET = "tok3n-of-the-gateway", "client-s3cret"

CONFIG = """
brokers:
  default:
    ingress: [{{http: {{listen: "127.0.0.1:0"}}}}]
    dead_letter: {{file: {{path: letters.jsonl}}}}
triggers:
  echoed:
    delivery: {{retry: 1, backoff_delay_s: 0.01}}
    subscriber:
      http:
        url: {url}echo
        client: {client}
        credentials: {{oauth2: {{token_url: "{url}token", client_id: us, client_secret: {secret}}}}}
  tokenless:
    subscriber:
      http:
        url: {url}echo
        credentials: {{oauth2: {{token_url: "{url}broken", client_id: us, client_secret: {secret}, scopes: [a]}}}}
"""


def _hostile(request: Received) -> Answer:
    """Repeats whatever it gets."""
    repeated = json.dumps([*request.headers.values(), request.body.decode()]).encode()
    if request.path == "/token":
        return 200, {}, json.dumps({"access_token": TOKEN, "token_type": "Bearer"}).encode()
    return 400, {"x-repeated": request.headers.get("authorization", "")}, repeated


@pytest.mark.spec("OC-07")
@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("client", twins("native", "httpx"))
def test_nothing_shows_a_token(tmp_path: Path, client: str) -> None:
    with Subscriber(decide=_hostile) as subscriber:
        config = CONFIG.format(url=subscriber.url, client=client, secret='"${secret:client}"')
        config += f"secrets: {{client: {{file: {tmp_path / 'client-secret'}}}}}\n"
        (tmp_path / "client-secret").write_text(SECRET)
        with GatewayProcess(config, tmp_path, {"TIDEGATE_LOG_LEVEL": "debug"}) as gateway:
            event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": {}}
            headers = {"content-type": "application/cloudevents+json"}
            assert web.post(gateway.ingress(), json=event, headers=headers, verify=False).status_code == 202
            letters = tmp_path / "letters.jsonl"
            gateway.wait_until(lambda: letters.exists() and letters.read_text().count("\n") == 1)
            gateway.wait_until(lambda: "no access token" in (gateway.trigger("tokenless")["last_error"] or ""))
            settings = Settings(data_dir=Path("unused"), admin="off")
            some = Gateway(GatewayConfig.model_validate({}), settings, Registry.installed())
            paths = [r.path for r in all_routes(some) if r.method == "GET" and "{" not in r.path]
            paths += ["/metrics", "/status", "/api/v1/triggers/echoed", "/api/v1/why?id=1"]
            shown = {path: gateway.admin(path).text for path in paths if "tap" not in path and "/live/" not in path}
            ran = [
                tidegate(*words, text=json.dumps(event), cwd=tmp_path)
                for words in (["check", "tidegate.yaml"], ["explain", "tidegate.yaml", "-"])
            ]
            shown |= {" ".join(r.args): r.stdout + r.stderr for r in ran}
            gateway.stop()
        shown |= {str(f): f.read_bytes().decode("latin-1") for f in tmp_path.rglob("*") if f.is_file()}
        shown.pop(str(tmp_path / "client-secret"))
        seen = [r.headers.get("authorization") for r in subscriber.requests if r.path == "/echo"]
    assert seen == [f"Bearer {TOKEN}"]
    (letter,) = map(json.loads, letters.read_text().splitlines())
    shown["what the subscriber said"] = said = base64.b64decode(letter["knativeerrordata"]).decode()
    assert '"Bearer ****"' in said, "the answer repeated the token"
    assert {place for place, text in shown.items() if TOKEN in text or SECRET in text} == set()


@pytest.mark.spec("OC-07")
def test_a_literal_secret_is_not_shown_either(kit: Any) -> None:
    from gateway_http.config import HttpSinkConfig

    oauth2 = {"token_url": "https://login.example/", "client_id": "us", "client_secret": SECRET}
    options = HttpSinkConfig.model_validate({"url": "https://h/", "credentials": {"oauth2": oauth2}})
    assert SECRET not in repr(options) + str(options) + str(options.model_dump())


@pytest.mark.anyio
@pytest.mark.spec("OC-08")
@pytest.mark.parametrize("client", twins("native", "httpx"))
async def test_a_redirect_gets_no_token(kit: Any, client: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    with Subscriber() as elsewhere:
        for status in (301, 302, 303, 307, 308):
            with Subscriber(default=(status, {"location": elsewhere.url}, b"")) as subscriber:
                given = {"bearer_file": {"path": tmp_path / "token"}}
                async with kit.sink(subscriber.url, client=client, credentials=given, probe=True) as sink:
                    assert (await kit.send(sink)).code == status
        assert elsewhere.requests == []


# -- the config -------------------------------------------------------------------------------------------------------


def _warnings(tmp_path: Path, sink: str) -> list[str]:
    file = tmp_path / "tidegate.yaml"
    file.write_text(
        "brokers: {default: {ingress: [{http: {listen: '127.0.0.1:0'}}]}}\n"
        f"triggers: {{t: {{subscriber: {{http: {sink}}}}}}}\n"
    )
    return [str(w) for w in load_all([file], Registry.installed(), {}).warnings]


_FILE = "credentials: {bearer_file: {path: token}}"


@pytest.mark.spec("OC-08")
@pytest.mark.parametrize(
    ("sink", "words"),
    [
        (f'{{url: "http://orders.example/", {_FILE}}}', ["credentials: the token can be read on the way"]),
        (f'{{url: "http://10.0.0.1/", {_FILE}}}', ["credentials: the token can be read on the way"]),
        (f'{{url: "https://orders.example/", tls: {{verify: false}}, {_FILE}}}', ["whoever answers gets the token"]),
        (f'{{url: "https://orders.example/", {_FILE}}}', []),
        (f'{{url: "http://127.0.0.1:1/", {_FILE}}}', []),
        (f'{{url: "http://localhost/", {_FILE}}}', []),
        (f'{{url: "http://[::1]:1/", {_FILE}}}', []),
        ('{url: "http://orders.example/"}', []),
        (
            '{url: "https://h/", credentials: '
            '{oauth2: {token_url: "http://l.example/", client_id: a, client_secret: b}}}',
            ["credentials.oauth2.token_url: the client's secret can be read on the way"],
        ),
    ],
)
def test_what_others_can_read_is_warned_of(tmp_path: Path, sink: str, words: list[str]) -> None:
    found = _warnings(tmp_path, sink)
    assert len(found) == len(words)
    assert all(word in text for word, text in zip(words, found, strict=True))


@pytest.mark.parametrize(
    ("sink", "words"),
    [
        ('{url: "https://h/", credentials: {}}', "write exactly one of `oauth2`"),
        (f'{{url: "https://a:b@h/", {_FILE}}}', "leave user and password out of the URL"),
        (f'{{url: "https://h/", headers: {{AUTHORIZATION: x}}, {_FILE}}}', "leave it out of `headers`"),
        (
            '{url: "https://h/", credentials: {oauth2: {token_url: "l.example", client_id: a, client_secret: b}}}',
            "write http://HOST[:PORT]/PATH or https://",
        ),
        (
            '{url: "https://h/", credentials: {oauth2: {token_url: "https://a:b@l/", client_id: a, client_secret: b}}}',
            "use `client_id` and `client_secret`",
        ),
        (
            '{url: "https://h/", credentials: {oauth2: {token_url: "https://l/", client_id: a, client_secret: ""}}}',
            "the secret is empty",
        ),
        (
            '{url: "https://h/", credentials: {oauth2: '
            '{token_url: "https://l/", client_id: a, client_secret: b, scopes: ["a b"]}}}',
            "a scope has no spaces",
        ),
    ],
)
def test_a_config_that_cannot_be_meant(tmp_path: Path, sink: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        _warnings(tmp_path, sink)
    assert words in str(raised.value)
