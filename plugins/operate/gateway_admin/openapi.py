"""The OpenAPI 3.1 document of the admin API, made from the route table and the models."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from gateway_api.routes import JSON, PROBLEM, Route, Text
from msgspec.json import schema_components
from pydantic.json_schema import models_json_schema

from gateway_core import __version__
from gateway_core.contract.record import DETAILS_FIELD, Record

from .models import ProblemDocument

_REF = "#/components/schemas/{model}"
_ALWAYS = (400, 403, 500)
_CHANGES = (413, 415)


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """The document that describes these routes."""
    paths: dict[str, Any] = {}
    routes = [route for route in routes if route.described]
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tidegate admin API",
            "version": __version__,
            "summary": "Status, health and metrics of a gateway, and changes to its triggers.",
        },
        "paths": paths,
        "components": {
            "schemas": _schemas(routes),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The gateway's own token, or one made from it: `tidegate admin token`. Not needed "
                    "at the socket in the data directory. Each operation names the role that it needs.",
                }
            },
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    names = re.findall(r"\{(\w+)\}", route.path)
    changes = route.method != "GET"
    problems = {*route.problems, *_ALWAYS, *(_CHANGES if changes else ()), *(() if route.open else (401,))}
    problems -= route.answers.keys()
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": _identifier(route),
        "responses": {
            **{str(status): _answer(status, model) for status, model in route.answers.items()},
            **{str(status): _problem(status) for status in sorted(problems)},
        },
        "security": [{}] if route.open else [{"token": [route.needs]}],
    }
    parameters = [{"name": n, "in": "path", "required": True, "schema": {"type": "string"}} for n in names]
    parameters += [
        {"name": name, "in": "query", "required": False, "description": text, "schema": {"type": "string"}}
        for name, text in route.query.items()
    ]
    if 412 in route.problems:
        parameters += [
            {"name": header, "in": "header", "required": False, "schema": {"type": "string"}}
            for header in ("If-Match", "If-None-Match")
        ]
    if parameters:
        operation["parameters"] = parameters
    if route.body:
        media = {kind: {"schema": {"type": "object"}} for kind in route.takes}
        operation["requestBody"] = {"required": True, "description": route.body, "content": media}
    return operation


def _identifier(route: Route) -> str:
    words = [w for w in re.split(r"[/{}._]+", route.path) if w not in ("", "api", "v1")]
    return "-".join([route.method.lower(), *words])


def _answer(status: int, model: Any) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if isinstance(model, Text):
        answer["content"] = {model.media: {"schema": {"type": "string"}}}
    elif model is dict:
        answer["content"] = {JSON: {"schema": {"type": "object"}}}
    elif model is not None:
        answer["content"] = {JSON: {"schema": {"$ref": _REF.format(model=model.__name__)}}}
    return answer


def _problem(status: int) -> dict[str, Any]:
    schema = {"$ref": _REF.format(model=ProblemDocument.__name__)}
    return {"description": HTTPStatus(status).phrase, "content": {PROBLEM: {"schema": schema}}}


def _schemas(routes: Sequence[Route]) -> dict[str, Any]:
    used = [m for r in routes for m in r.answers.values() if isinstance(m, type) and m is not dict]
    kinds = dict.fromkeys([*used, ProblemDocument])
    records = [kind for kind in kinds if issubclass(kind, Record)]
    models = [(kind, "serialization") for kind in kinds if not issubclass(kind, Record)]
    _, schema = models_json_schema(models, ref_template=_REF)  # type: ignore[arg-type]
    _, components = schema_components(records, ref_template=_REF.replace("{model}", "{name}"))
    found: dict[str, Any] = schema["$defs"]
    return {**found, **{name: _written(component) for name, component in components.items()}}


def _written(component: dict[str, Any]) -> dict[str, Any]:
    """The schema of a record as `Record.document` writes it: all fields are there, and `details` beside them."""
    properties = {name: field for name, field in component["properties"].items() if name != DETAILS_FIELD}
    more = DETAILS_FIELD in component["properties"]
    return {**component, "properties": properties, "required": [*properties], "additionalProperties": more}
