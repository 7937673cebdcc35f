"""Secrets in addresses: in the path, the query, in front of the host. They are sent, and seen nowhere else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gateway_options.secrecy import shown_url
from gateway_testing import GatewayProcess, Subscriber

from tests import web
from tests.command_line import tidegate
from tests.ledger import body_of, headers

WORDS = ("path-s3cret", "query-s3cret", "user-s3cret", "env-s3cret")
CONFIG = """
secrets:
  hook: {env: HOOK}
brokers:
  default:
    ingress:
      - http: {listen: "127.0.0.1:0"}
triggers:
  by-secret:
    subscriber: "URLservices/${secret:hook}"
    delivery: {retry: 0}
  by-env:
    subscriber:
      CLIENT: {url: "URLhooks/${ENVIRONMENT_TOKEN}/orders"}
    delivery: {retry: 0}
  by-query:
    subscriber: "URLorders?access_token=query-s3cret&shop=blue"
    delivery: {retry: 0}
  by-user:
    subscriber: "WITH_USERorders"
    delivery: {retry: 0}
"""


@pytest.mark.spec("SAFE-08")
@pytest.mark.parametrize("client", ["http", pytest.param("httpx", marks=pytest.mark.full)])
@pytest.mark.usefixtures("processes")
def test_nothing_shows_a_secret_of_an_address(tmp_path: Path, client: str) -> None:
    env = {"HOOK": "path-s3cret", "ENVIRONMENT_TOKEN": "env-s3cret", "TIDEGATE_LOG_LEVEL": "debug"}
    with Subscriber(decide=lambda request: (400, {}, b"no")) as s:
        text = CONFIG.replace("WITH_USER", s.url.replace("://", "://anna:user-s3cret@")).replace("URL", s.url)
        text = text.replace("CLIENT: {", "http: {" if client == "http" else "http: {client: httpx, ")
        with GatewayProcess(text, tmp_path, env) as gateway:
            answer = web.post(gateway.ingress(), content=body_of(1), headers=headers(1), verify=False)
            assert answer.status_code == 202
            gateway.wait_until(lambda: sum(t["dead_lettered"] for t in gateway.status()["triggers"]) == 4)
            sent = {request.path for request in s.requests}
            assert sent == {
                "/services/path-s3cret",
                "/hooks/env-s3cret/orders",
                "/orders?access_token=query-s3cret&shop=blue",
                "/orders",
            }
            seen = [gateway.admin(path).text for path in ("/status", "/metrics", "/api/v1/triggers", "/api/v1/graph")]
            seen.append(gateway.admin("/api/v1/graph.svg").text)
            seen.append(gateway.admin("/api/v1/events?id=1").text)
            event = {"event": {"specversion": "1.0", "id": "9", "source": "/s", "type": "t"}}
            url, token = f"{gateway.admin_url}/api/v1/explain", gateway.admin_headers
            seen.append(web.post(url, json=event, verify=False, headers=token).text)
            assert web.get(url, verify=False).status_code == 401
            seen.append((gateway.data_dir / "audit/audit.jsonl").read_text())
            letters = [p.read_text() for p in (gateway.data_dir / "dead-letter").glob("*.jsonl")]
            assert gateway.stop() == 0
            seen += [*letters, gateway.log()]
        for arguments in (["check"], ["graph"], ["dlq", "list", "-c"]):
            ran = tidegate(*arguments, gateway.config, env={**env, "TIDEGATE_DATA_DIR": str(gateway.data_dir)})
            assert ran.returncode == 0, ran.stderr
            seen.append(ran.stdout + ran.stderr)
    for text in seen:
        assert not any(word in text for word in WORDS), text
    destinations = {json.loads(line)["event"]["knativeerrordest"] for text in letters for line in text.splitlines()}
    assert destinations == {
        f"{s.url}****",
        f"{s.url}hooks/****/orders",
        f"{s.url}orders?access_token=****&shop=blue",
        f"{s.url}orders",
    }


@pytest.mark.spec("SAFE-08")
@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://host/a?b=c#d", "http://host/a?b=c"),
        ("http://u:p@host:8/a", "http://host:8/a"),
        ("http://token@host/", "http://host/"),
        ("https://h/a?sig=x&se=1&X-Amz-Signature=y", "https://h/a?sig=****&se=1&X-Amz-Signature=****"),
        ("https://h/?apiKey=1&api_key=2&key=&monkey=3", "https://h/?apiKey=****&api_key=****&key=&monkey=3"),
        ("http://host:port/a?token=x", "http://****"),
        ("http://[::1/a", "http://****"),
        ("s3a://key:secret@bucket/table", "s3a://bucket/table"),
        ("/a/path", "/a/path"),
    ],
)
def test_what_may_be_shown_of_an_address(url: str, shown: str) -> None:
    assert shown_url(url) == shown
    assert shown_url(url, hidden=True).count("****") == 1
