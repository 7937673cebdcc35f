"""The OpenAPI 3.1 document of the admin API, made from the route table and the models."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from pydantic.json_schema import models_json_schema

from gateway_core import __version__

from .models import ProblemDocument
from .routes import JSON, PROBLEM, Route, Text

_REF = "#/components/schemas/{model}"
_ALWAYS = (403, 500)
_CHANGES = (413, 415)


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """The document that describes these routes."""
    paths: dict[str, Any] = {}
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
                    "description": "Required if the gateway has the setting TIDEGATE_ADMIN_TOKEN.",
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
        "security": [{}] if route.open else [{}, {"token": []}],
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
    models = [(model, "serialization") for model in dict.fromkeys([*used, ProblemDocument])]
    _, schema = models_json_schema(models, ref_template=_REF)  # type: ignore[arg-type]
    found: dict[str, Any] = schema["$defs"]
    return found
