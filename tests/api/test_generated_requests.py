"""Requests generated from the OpenAPI document, the wrong ones too, against a running service.

``SPRINGTIDE_EXAMPLES`` is the number of requests for each call; `make soak` tries more than `make test`.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
import pytest_asyncio
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from patience import PATIENCE_S
from schemathesis import Case, GenerationMode

from springtide.hub_extension.service import openapi
from springtide.hub_extension.service.site import ROUTES
from springtide.hub_extension.web.caller import Caller
from springtide.scheduler import wire

EXAMPLES = int(os.environ.get("SPRINGTIDE_EXAMPLES", "4"))
DOCUMENT = openapi.document(ROUTES, server="/api/v1", version="0")
ENDLESS = {"/events"}
"""Calls whose answer does not end, or is no JSON."""
CALLS = [
    (method, path) for path, methods in DOCUMENT["paths"].items() for method in methods if path not in ENDLESS
]
ADMIN = "generated"
TRIED: Counter[str] = Counter()
"""Number of requests by what became of them."""


@pytest.fixture(scope="module", autouse=True)
def told(record_testsuite_property: Callable[[str, object], None]) -> Iterator[None]:
    """Report the tried requests to `make reliability`."""
    yield
    for outcome, number in TRIED.items():
        record_testsuite_property(f"requests {outcome}", number)


@pytest_asyncio.fixture(loop_scope="module")
async def pool(shared: Any) -> Any:
    """The service of all calls; none of its jobs ever starts, so that no generated command runs."""
    shared.people.callers[ADMIN] = Caller(ADMIN, frozenset({"vision"}), admin=True, token=ADMIN)
    for name in ("vision", "speech"):
        edit = wire.ProjectEdit(quota=0, limit=0)
        await shared.pool.engine.edit_project(name, edit, "test", members={})
    return shared


SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)


def calls(method: str, path: str) -> Any:
    """Return a strategy of requests of one call, those that the document allows and others."""
    operation = SCHEMA[path][method.upper()]
    right = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    return right | operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)


def check(case: Case, url: str, user: str) -> None:
    if "wait" in (case.query or {}):
        case.query["wait"] = 0
    answer = case.call(base_url=f"{url}api/v1", headers={"Authorization": f"token {user}"}, timeout=PATIENCE_S)
    assert answer.status_code < 500, f"{answer.status_code} {answer.text}"
    assert answer.headers["x-content-type-options"] == ["nosniff"]
    TRIED["accepted" if answer.status_code < 400 else "refused"] += 1
    if answer.status_code < 400:
        case.operation.validate_response(answer)
    elif "json" in answer.headers["content-type"][0]:
        problem = msgspec.json.decode(answer.content, type=wire.Problem)
        assert (problem.status, problem.message[-1:]) == (answer.status_code, ".")


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("method", "path"), CALLS, ids=[f"{method} {path}" for method, path in CALLS])
async def test_no_request_breaks_the_service_and_every_answer_is_as_documented(
    pool: Any, method: str, path: str
) -> None:
    @settings(
        max_examples=EXAMPLES,
        database=None,
        phases=[Phase.generate],
        derandomize=EXAMPLES < 100,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=calls(method, path))
    def attempt(case: Case) -> None:
        check(case, pool.url, ADMIN)

    await asyncio.to_thread(attempt)
    health = await asyncio.to_thread(requests.get, f"{pool.url}api/v1/health", timeout=PATIENCE_S)
    assert health.status_code == 200
