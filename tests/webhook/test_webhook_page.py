"""docs/howto/receive-webhooks.md: its configs, in a real gateway, with what the senders send."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from gateway_testing import GatewayProcess, Subscriber
from ruamel.yaml import YAML
from standardwebhooks import Webhook

from tests import web
from tests.docs.blocks import of_page

SECRETS = {
    "STRIPE_SIGNING_SECRET": "whsec_test_secret",
    "SHOP_SECRET": "0123456789abcdef",
    "WEBHOOK_SECRET": "whsec_" + base64.b64encode(b"k" * 24).decode(),
}
STRIPE = b'{"id":"evt_1","type":"invoice.paid","created":1700000000,"data":{"object":{}}}'


def sha256(secret: str, content: bytes) -> str:
    return hmac.new(secret.encode(), content, hashlib.sha256).hexdigest()


def configs() -> list[dict[str, Any]]:
    yaml = YAML(typ="safe")
    return [yaml.load(block.text) for block in of_page("docs/howto/receive-webhooks.md", "yaml")]


def stripe(now: int) -> dict[str, str]:
    return {"stripe-signature": f"t={now},v1={sha256('whsec_test_secret', b'%d.' % now + STRIPE)}"}


SHOP = b'{"specversion":"1.0","id":"1","source":"/shop","type":"t"}'
STRUCTURED = {"content-type": "application/cloudevents+json"}


def shop(now: int) -> dict[str, str]:
    return {"x-shop-time": str(now), "x-shop-signature": "v1=" + sha256("0123456789abcdef", b"%d.%s" % (now, SHOP))}


HOOK = b'{"type":"user.created","timestamp":"2022-11-03T20:26:10.344522Z","data":{}}'


def hook(now: int) -> dict[str, str]:
    signature = Webhook(SECRETS["WEBHOOK_SECRET"]).sign("msg_1", datetime.fromtimestamp(now, UTC), HOOK.decode())
    return {"webhook-id": "msg_1", "webhook-timestamp": str(now), "webhook-signature": signature}


@pytest.mark.spec("HM-20", "HM-05", "HM-06", "HM-11")
@pytest.mark.usefixtures("processes")
def test_the_configs_of_the_page(tmp_path: Path) -> None:
    """All of its ingresses in one gateway: what is signed comes in, what is not does not."""
    with Subscriber() as s:
        brokers: dict[str, Any] = {}
        secrets: dict[str, Any] = {}
        triggers: dict[str, Any] = {}
        for number, config in enumerate(configs()):
            (ingress,) = config["brokers"]["default"]["ingress"]
            ingress["http"]["listen"] = "127.0.0.1:0"
            brokers[f"b{number}"] = {"ingress": [ingress]}
            triggers[f"t{number}"] = {"broker": f"b{number}", "subscriber": s.url}
            secrets |= config.get("secrets", {})
        whole = json.dumps({"brokers": brokers, "secrets": secrets, "triggers": triggers})
        with GatewayProcess(whole, tmp_path, SECRETS) as gateway:

            def post(number: int, body: bytes, headers: dict[str, str]) -> int:
                url = gateway.ingress(f"b{number}")
                return web.post(url, content=body, headers=headers, verify=False, timeout=60).status_code

            now = int(time.time())  # not when the module was imported: a run may take longer than a signature lasts
            assert post(0, STRIPE, {}) == 202
            assert [post(n, STRIPE, {}) for n in (1, 2, 3)] == [401, 401, 401]
            assert post(1, STRIPE, stripe(now)) == 202
            assert post(2, SHOP, {**shop(now), **STRUCTURED}) == 202
            assert post(3, HOOK, hook(now)) == 202
            assert post(3, HOOK.replace(b"user", b"root"), hook(now)) == 401
            gateway.wait_until(lambda: len(s.requests) == 4, 60, "four events")
            assert gateway.stop() == 0
    found = {(r.headers["ce-type"], r.headers["ce-source"], r.headers["ce-id"]) for r in s.requests}
    assert found == {
        ("com.stripe.invoice.paid", "https://stripe.com/", "evt_1"),
        ("t", "/shop", "1"),
        ("user.created", "/partners/shop", "msg_1"),
    }
    assert {r.headers.get("ce-time") for r in s.requests} == {
        "2023-11-14T22:13:20Z",
        None,
        "2022-11-03T20:26:10.344522Z",
    }


@pytest.mark.spec("HM-20")
def test_the_templates_of_the_table() -> None:
    """Every row of the table is a config that the codec takes."""
    from gateway_webhook.config import WebhookConfig

    page = (Path(__file__).parents[2] / "docs/howto/receive-webhooks.md").read_text()
    rows = re.findall(r"^\| (\w[^|]*?) \| `([^`]*)` \| ([^|]*) \| `([^`]*)` \|", page, re.MULTILINE)
    assert len(rows) == 6
    for _, type_, source, id_ in rows[1:]:
        WebhookConfig(type=type_, source=source.strip("`") if source.startswith("`") else "/s", id=id_)
