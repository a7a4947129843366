from __future__ import annotations

import re

import msgspec

from springtide.hub_extension.service import openapi
from springtide.hub_extension.service.site import ROUTES
from springtide.scheduler import wire

DOCUMENT = openapi.document(ROUTES, server="/services/springtide/api/v1", version="1.2.3")


def test_the_document_is_valid_openapi():
    from openapi_spec_validator import OpenAPIV31SpecValidator, validate  # noqa: PLC0415 - seconds, for one worker

    validate(msgspec.json.decode(msgspec.json.encode(DOCUMENT)), cls=OpenAPIV31SpecValidator)


def test_every_operation_has_a_name_of_its_own():
    names = [operation["operationId"] for path in DOCUMENT["paths"].values() for operation in path.values()]
    assert len(set(names)) == len(names) == len(ROUTES)
    assert all(re.fullmatch(r"[a-z_]+", name) for name in names)


def test_every_call_documents_its_errors_as_problems():
    for route in ROUTES:
        operation = DOCUMENT["paths"][route.path.replace(":path}", "}")][route.method.lower()]
        schema = operation["responses"]["default"]["content"]["application/json"]["schema"]
        assert schema == {"$ref": "#/components/schemas/Problem"}, f"{route.method} {route.path}"


def test_the_bounds_of_the_wire_are_in_the_document():
    gpus = DOCUMENT["components"]["schemas"]["Submission"]["properties"]["gpus"]
    assert (gpus["type"], gpus["minimum"], gpus["maximum"]) == ("integer", 0, wire.MAX_GPUS)
    assert DOCUMENT["components"]["schemas"]["Submission"]["additionalProperties"] is False


async def test_anyone_gets_the_document_of_the_running_service(running):
    answer = await running.as_(None).get("/openapi.json")
    assert answer.status_code == 200
    assert set(answer.json()["paths"]) == set(DOCUMENT["paths"])


async def test_every_documented_call_exists(running):
    """An address that is documented but not served would answer 404 without its own words."""
    admin = running.as_("admin")
    for path, operations in DOCUMENT["paths"].items():
        for method in operations:
            if path == "/events":
                continue
            address = re.sub(r"\{\w+\}", "0", path)
            answer = await admin.request(method.upper(), address)
            unknown = answer.status_code in {404, 405} and answer.json()["message"].startswith(
                ("There is nothing at this address", "This address does not take")
            )
            assert not unknown, (method, path)
