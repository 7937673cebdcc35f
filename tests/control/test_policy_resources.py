"""What the admin API and `tidegate get policies` show of policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from gateway_api.tokens import read_token
from gateway_auth.keys import add_key

from gateway_core.config.registry import Registry
from gateway_core.contract.configs import load_all
from gateway_core.contract.settings import Settings
from gateway_core.runtime.gateway import Gateway
from tests import web
from tests.in_process import started

pytestmark = pytest.mark.anyio

KEYS = "authenticate: [{api_key: {file: keys.json}}]"
CONFIG = f"""
brokers:
  shop.orders: {{ingress: [{{http: {{listen: "127.0.0.1:0", {KEYS}}}}}]}}
  free: {{ingress: [{{http: {{listen: "127.0.0.1:0"}}}}]}}
policies:
  mine: {{brokers: [shop.orders], from: ["key a", "key b*"]}}
  open: {{brokers: [free], from: [anonymous], filters: [{{exact: {{type: t}}}}]}}
subjects: {{Thing/source: [one, two]}}
---
apiVersion: eventing.knative.dev/v1
kind: Broker
metadata: {{name: orders, namespace: shop}}
---
apiVersion: eventing.knative.dev/v1alpha1
kind: EventPolicy
metadata: {{name: only, namespace: shop}}
spec: {{from: [{{ref: {{apiVersion: v1, kind: Thing, name: source}}}}, {{sub: three}}]}}
"""


def _by_type(document: dict[str, Any]) -> dict[str, dict[str, str]]:
    found = {condition["type"]: condition for condition in document["status"]["conditions"]}
    assert len(found) == len(document["status"]["conditions"])
    return found


@pytest.mark.slow
@pytest.mark.spec("PO-14")
async def test_policies_have_the_conditions_of_an_event_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registry, file = Registry.installed(), tmp_path / "tidegate.yaml"
    file.write_text(CONFIG.replace("keys.json", str(tmp_path / "keys.json")))
    add_key(tmp_path / "keys.json", "a")
    data = tmp_path / "data"
    gateway = Gateway(load_all([file], registry, {}).config, Settings(data_dir=data, admin="127.0.0.1:0"), registry)
    async with started(gateway):
        url = gateway.services["admin"].addresses()["admin"]
        token = {"authorization": f"Bearer {read_token(data)}"}
        async with web.async_client(base_url=url, headers=token) as client:
            items = (await client.get("/api/v1/policies")).json()["items"]
            assert [item["metadata"]["id"] for item in items] == ["mine", "open", "shop.only"]
            only = (await client.get("/api/v1/policies/shop.only")).json()
            assert only == items[2]
            assert only["metadata"] == {"name": "only", "namespace": "shop", "generation": 1, "id": "shop.only"}
            assert only["status"]["from"] == ["one", "two", "three"]
            assert only["status"]["brokers"] == ["shop.orders"]
            conditions = _by_type(only)
            assert {type: c["status"] for type, c in conditions.items()} == {
                "Ready": "True",
                "AuthenticationEnabled": "True",
                "SubjectsResolved": "True",
            }
            assert _by_type(items[1])["AuthenticationEnabled"]["reason"] == "Anonymous"
            again = (await client.get("/api/v1/policies/shop.only")).json()
            assert again["status"]["conditions"] == only["status"]["conditions"]
            broker = (await client.get("/api/v1/brokers/shop.orders")).json()
            assert _by_type(broker)["EventPoliciesReady"]["status"] == "True"
            assert broker["status"]["policies"] == [
                {"apiVersion": None, "name": "mine", "id": "mine"},
                {"apiVersion": "eventing.knative.dev/v1alpha1", "name": "only", "id": "shop.only"},
            ]
            missing = await client.get("/api/v1/policies/nobody")
            assert (missing.status_code, missing.json()["detail"]) == (404, "there is no policy `nobody`")
        from gateway_admin.cli.app import kind_of
        from gateway_admin.cli.resources import get

        assert [kind_of(word) for word in ("policy", "policies", "brokers")] == ["policies", "policies", "brokers"]
        assert await anyio.to_thread.run_sync(get, "policies", None, "wide", None, data) == 0
        shown = capsys.readouterr().out
        assert all(word in shown for word in ("shop.only", "shop.orders", "three", "True"))
