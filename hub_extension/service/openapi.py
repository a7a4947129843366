"""The OpenAPI document, made from the same routes as the handlers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any, ClassVar

import msgspec

from springtide.hub_extension.api.endpoint import RoutedHandler
from springtide.hub_extension.api.routes import JSON, Route, Who
from springtide.scheduler.wire import OPTIONS, Problem

TEMPLATE = "#/components/schemas/{name}"


def document(routes: Sequence[Route], *, server: str, version: str) -> dict[str, Any]:
    """Return the API's description in OpenAPI 3.1. ``server`` is the common path prefix of all routes."""
    structs = [
        struct
        for route in routes
        for struct in (route.body, route.answer)
        if struct is not None and struct is not bytes
    ]
    _, components = msgspec.json.schema_components([*structs, Problem], ref_template=TEMPLATE)
    for name, option in product(("Submission", "Wish"), OPTIONS.values()):
        if (field := components.get(name, {}).get("properties", {}).get(option.name)) is not None:
            field["description"] = option.help
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path.replace(":path}", "}"), {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Springtide",
            "version": version,
            "description": "The pool's API. Quantities are GPUs, times are seconds since the epoch, durations are "
            "seconds. Every error is a Problem.",
        },
        "servers": [{"url": server}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "A token of the hub: `token …`",
                }
            },
        },
        "security": [{"token": []}],
    }


def _operation(route: Route) -> dict[str, Any]:
    words = re.sub(r"[{}]|:path", "", route.path).strip("/").replace("/", "_").replace("-", "_").replace(".", "_")
    operation: dict[str, Any] = {
        "operationId": f"{route.method.lower()}_{words}",
        "summary": route.summary,
        "description": f"For {route.callers}.",
        "responses": {str(status): _answer(route) for status in (route.status, *route.also)},
    }
    operation["responses"]["default"] = {
        "description": "Why it was refused.",
        "content": {JSON: {"schema": {"$ref": TEMPLATE.format(name="Problem")}}},
    }
    if parameters := [*_path_parameters(route), *_query_parameters(route)]:
        operation["parameters"] = parameters
    if route.body is bytes:
        operation["requestBody"] = {"required": True, "content": {"application/octet-stream": {"schema": {}}}}
    elif route.body is not None:
        schema = {"$ref": TEMPLATE.format(name=route.body.__name__)}
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
    if route.who is Who.ANYONE:
        operation["security"] = []
    return operation


def _answer(route: Route) -> dict[str, Any]:
    if route.status == 204:
        return {"description": "Done."}
    schema: dict[str, Any] = {"type": "string"}
    if route.media == "application/octet-stream":
        schema = {}
    elif route.answer is not None:
        schema = {"$ref": TEMPLATE.format(name=route.answer.__name__)}
    elif route.media == JSON:
        schema = {"type": "object"}
    return {"description": f"{route.summary}.", "content": {route.media: {"schema": schema}}}


def _path_parameters(route: Route) -> Iterable[dict[str, Any]]:
    for name, kind in route.parts.items():
        schema = msgspec.json.schema(kind)
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameters(route: Route) -> Iterable[dict[str, Any]]:
    if route.query is None:
        return
    properties = msgspec.json.schema_components([route.query])[1][route.query.__name__]["properties"]
    for name, schema in properties.items():
        yield {"name": name, "in": "query", "required": False, "schema": schema}


class OpenApiHandler(RoutedHandler):
    """Handler of the document."""

    ROUTE: ClassVar = Route(method="GET", path="/openapi.json", who=Who.ANYONE, summary="Return this document")

    def initialize(self, *, text: Callable[[], bytes], **settings: Any) -> None:
        """Store the function that returns the document as JSON."""
        super().initialize(**settings)
        self._text = text

    def get(self) -> None:
        """Send the document."""
        self.set_header("Content-Type", JSON)
        self.finish(self._text())
