"""The admin API's own description is valid, whole and true."""

from __future__ import annotations

from typing import Any

import httpx
import jsonschema
import pytest
from gateway_admin.openapi import document
from gateway_admin.server import Admin
from gateway_api.routes import Answer, Route
from openapi_spec_validator import OpenAPIV31SpecValidator, validate

from gateway_core.contract.status import GatewayStatus

pytestmark = pytest.mark.usefixtures("processes")

Operation = tuple[str, str]
SUBSCRIBER = b"subscriber: http://127.0.0.1:9/\nfilter: {type: none}\n"
MEDIA = {"content-type": "application/yaml"}
EVENT = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
NAMED = "/api/v1/triggers/{name}"

# operation, the path that is asked, what else is sent, the status that follows: in this order
CALLS: list[tuple[Operation, str, dict[str, Any], int]] = [
    (("get", "/status"), "/status", {}, 200),
    (("get", "/metrics"), "/metrics", {}, 200),
    (("get", "/health/live"), "/health/live", {}, 200),
    (("get", "/health/ready"), "/health/ready", {}, 200),
    (("get", "/health/startup"), "/health/startup", {}, 200),
    (("get", "/openapi.json"), "/openapi.json", {}, 200),
    (("get", "/api/v1/brokers"), "/api/v1/brokers", {}, 200),
    (("get", "/api/v1/brokers/{name}"), "/api/v1/brokers/default", {}, 200),
    (("get", "/api/v1/brokers/{name}"), "/api/v1/brokers/none", {}, 404),
    (("get", "/api/v1/bridges"), "/api/v1/bridges", {}, 200),
    (("get", "/api/v1/bridges/{name}"), "/api/v1/bridges/across", {}, 200),
    (("get", "/api/v1/triggers"), "/api/v1/triggers", {}, 200),
    (("put", NAMED), "/api/v1/triggers/doc", {"content": SUBSCRIBER, "headers": MEDIA}, 201),
    (("put", NAMED), "/api/v1/triggers/doc", {"content": SUBSCRIBER, "headers": MEDIA}, 200),
    (("put", NAMED), "/api/v1/triggers/doc", {"content": b"x: 1", "headers": MEDIA}, 422),
    (("put", NAMED), "/api/v1/triggers/own", {"content": SUBSCRIBER, "headers": MEDIA}, 409),
    (("put", NAMED), "/api/v1/triggers/doc", {"content": SUBSCRIBER}, 415),
    (("put", NAMED), "/api/v1/triggers/doc", {"content": b" " * (1 << 20) + b" ", "headers": MEDIA}, 413),
    (("put", NAMED), "/api/v1/triggers/doc", {"content": b"", "headers": {**MEDIA, "if-match": '"0"'}}, 422),
    (("get", NAMED), "/api/v1/triggers/doc", {}, 200),
    (("post", f"{NAMED}/pause"), "/api/v1/triggers/doc/pause", {}, 200),
    (("post", f"{NAMED}/resume"), "/api/v1/triggers/doc/resume", {}, 200),
    (("post", f"{NAMED}/resume"), "/api/v1/triggers/none/resume", {}, 404),
    (("post", "/api/v1/apply"), "/api/v1/apply", {"json": {"triggers": {"doc": {"subscriber": "http://h/"}}}}, 200),
    (("post", "/api/v1/apply"), "/api/v1/apply", {"json": {"brokers": {}}}, 422),
    (("delete", NAMED), "/api/v1/triggers/doc", {"headers": {"if-match": '"0"'}}, 412),
    (("delete", NAMED), "/api/v1/triggers/doc", {}, 204),
    (("delete", NAMED), "/api/v1/triggers/doc", {}, 404),
    (("post", "/api/v1/reload"), "/api/v1/reload", {}, 200),
    (("post", "/api/v1/explain"), "/api/v1/explain", {"json": {"event": EVENT}}, 200),
]


@pytest.fixture(scope="module")
def described(console) -> dict[str, Any]:
    return console.http.get("/openapi.json").json()


def operations(described: dict[str, Any]) -> set[Operation]:
    return {(method, path) for path, methods in described["paths"].items() for method in methods}


def holds(described: dict[str, Any], operation: Operation, response: httpx.Response) -> None:
    """The response is one of those that the description has."""
    method, path = operation
    answers = described["paths"][path][method]["responses"]
    assert str(response.status_code) in answers, (operation, response.status_code, response.text)
    content = answers[str(response.status_code)].get("content")
    if content is None:
        assert response.content == b""
        return
    media = response.headers["content-type"].partition(";")[0]
    assert media in content, (operation, media)
    if media.endswith("json"):
        schema = {**content[media]["schema"], "components": described["components"]}
        jsonschema.Draft202012Validator(schema).validate(response.json())


def test_it_is_valid(described: dict[str, Any]) -> None:
    assert described["openapi"].startswith("3.1")
    validate(described, cls=OpenAPIV31SpecValidator)


def test_every_route_is_in_it(described: dict[str, Any], console) -> None:
    assert operations(described) >= {operation for operation, *_ in CALLS}
    for method, path in operations(described):
        where = path.replace("{name}", "own")
        answer = console.http.request(method, where, headers={"host": "elsewhere"})
        assert answer.status_code == 403, (method, path)
        holds(described, (method, path), answer)


def test_what_is_offered_is_what_is_described() -> None:
    extra = Route("GET", "/x/{name}", lambda request: Answer({}), "Extra", {200: dict})
    admin = Admin(lambda: GatewayStatus("1"), more=[extra])
    routes = admin.routes
    found = document(routes)
    assert {(r.method.lower(), r.path) for r in routes} == operations(found)
    assert ("get", "/x/{name}") in operations(found)
    assert len({o["operationId"] for p in found["paths"].values() for o in p.values()}) == len(routes)


def test_every_route_answers_as_documented(described: dict[str, Any], console) -> None:
    for operation, path, sent, status in CALLS:
        response = console.http.request(operation[0], path, **sent)
        assert response.status_code == status, (operation, path, response.text)
        holds(described, operation, response)


def test_a_schema_that_does_not_fit_is_noticed(described: dict[str, Any], console) -> None:
    response = httpx.Response(200, json={"items": [{"metadata": {}}]})
    with pytest.raises(jsonschema.ValidationError):
        holds(described, ("get", "/api/v1/triggers"), response)
