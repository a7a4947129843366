"""Routes by decorator: what a function has to declare, how addresses are matched, and who is admitted."""

from __future__ import annotations

import re
import sys
from types import ModuleType
from typing import Any

import pytest
from msgspec import Struct

from springtide.hub_extension.api.routes import (
    Call,
    Encoded,
    File,
    Operation,
    Reply,
    Route,
    RouteError,
    Who,
    route,
    routes_of,
)
from springtide.hub_extension.service.site import ROUTES


class Query(Struct):
    limit: int = 1


class Body(Struct):
    name: str


class Answer(Struct):
    id: str


@route("PATCH", "/things/{name}/parts/{part}", Who.ADMINS, status=202)
async def change(call: Call, name: str, part: int, query: Query, body: Body) -> Answer:
    """Change a part of a thing. Raises `Refusal` for another one."""
    return Answer(f"{name} {part} {query.limit} {body.name} {call.caller}")


def test_a_route_is_what_the_annotations_of_its_function_say() -> None:
    assert (change.method, change.path, change.who, change.status) == (
        "PATCH",
        "/things/{name}/parts/{part}",
        Who.ADMINS,
        202,
    )
    assert change.summary == "Change a part of a thing"
    assert (change.parts, change.query, change.body, change.answer) == (
        {"name": str, "part": int},
        Query,
        Body,
        Answer,
    )


async def test_a_route_is_called_like_its_function() -> None:
    call = Call(pool=None, caller="susan")  # type: ignore[arg-type]
    assert (await change(call, "a", 2, query=Query(3), body=Body("b"))).id == "a 2 3 b susan"


def test_answers_may_be_nothing_files_or_have_a_status_or_json_of_their_own() -> None:
    @route("DELETE", "/things", Who.ADMINS)
    async def delete(_call: Call) -> None:
        """Delete all."""

    @route("GET", "/file", Who.ADMINS)
    async def file(_call: Call) -> File:
        """Return a file."""
        raise NotImplementedError

    @route("POST", "/things", Who.ADMINS, status=201, also=(200,))
    async def make(_call: Call) -> Reply[Answer]:
        """Make one."""
        raise NotImplementedError

    @route("GET", "/things", Who.ADMINS)
    async def things(_call: Call) -> Encoded[Answer]:
        """Return all."""
        raise NotImplementedError

    assert (delete.status, delete.answer) == (204, None)
    assert (file.status, file.answer, file.media) == (200, None, "application/octet-stream")
    assert (make.status, make.also, make.answer) == (201, (200,), Answer)
    assert (things.status, things.answer, things.media) == (200, Answer, "application/json")


async def without_annotation(call: Call, name) -> Answer:
    """Return one."""


async def without_result(call: Call, name: str):
    """Return one."""


async def without_call(name: str) -> Answer:
    """Return one."""


async def without_part(call: Call) -> Answer:
    """Return one."""


async def with_another_part(call: Call, name: str, colour: str) -> Answer:
    """Return one."""


async def with_a_plain_body(call: Call, name: str, body: dict[str, Any]) -> Answer:
    """Return one."""


async def with_a_plain_result(call: Call, name: str) -> str:
    """Return one."""


async def without_docstring(call: Call, name: str) -> Answer:
    pass


@pytest.mark.parametrize(
    "function",
    [
        without_annotation,
        without_result,
        without_call,
        without_part,
        with_another_part,
        with_a_plain_body,
        with_a_plain_result,
        without_docstring,
    ],
)
def test_a_function_that_leaves_something_open_is_no_route(function: Any) -> None:
    with pytest.raises(RouteError, match=function.__name__):
        route("GET", "/things/{name}", Who.LOGGED_IN)(function)


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> ModuleType:
    """A package of one module, to which a test adds routes."""
    package = ModuleType("things")
    package.__path__ = [str(tmp_path)]
    (tmp_path / "module.py").touch()
    monkeypatch.setitem(sys.modules, "things", package)
    monkeypatch.setitem(sys.modules, "things.module", ModuleType("things.module"))
    return package


def declared(path: str, method: str = "GET") -> Operation[..., Any]:
    async def things(_call: Call, **_parts: str) -> Answer:
        raise NotImplementedError

    return Operation(method=method, path=path, who=Who.ADMINS, summary="", function=things)


def test_fixed_words_are_matched_before_parts_in_whatever_order_routes_are_declared(package: ModuleType) -> None:
    paths = ["/jobs", "/jobs/actions", "/jobs/{id}", "/jobs/{id}/log", "/jobs/{name:path}", "/people"]
    for order in (paths, paths[::-1]):
        vars(sys.modules["things.module"]).update({f"route{n}": declared(path) for n, path in enumerate(order)})
        assert [each.path for each in routes_of(package)] == paths


def test_two_routes_of_one_address_and_method_are_refused(package: ModuleType) -> None:
    vars(sys.modules["things.module"]).update(one=declared("/jobs/{id}"), other=declared("/jobs/{job}", "POST"))
    assert len(routes_of(package)) == 2
    vars(sys.modules["things.module"]).update(third=declared("/jobs/{job}"))
    with pytest.raises(RouteError, match="GET /jobs/"):
        routes_of(package)


def address(route: Route) -> str:
    return re.sub(r"\{[\w:]+\}", "0", route.path)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_every_route_admits_only_those_whom_it_is_for(shared: Any, route: Route) -> None:
    async def status(name: str | None) -> int:
        body: dict[str, Any] = {"json": {}} if route.body else {}
        answer = await shared.as_(name).request(route.method, address(route), **body)
        return int(answer.status_code)

    if route.who is Who.ANYONE:
        assert await status(None) == 200
        return
    if route.who is not Who.LOGGED_IN_OR_OWN:  # the requests of tests are the service's own
        assert await status(None) == 401
    if route.who in {Who.ADMINS, Who.PROJECT_ADMINS, Who.SPAWNER}:
        assert await status("susan") == 403
