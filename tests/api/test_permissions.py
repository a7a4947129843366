from __future__ import annotations

import pytest

from springtide.hub_extension.api import permissions
from springtide.hub_extension.web.auth import ADMIN_SCOPE, caller_of, is_page_view
from springtide.hub_extension.web.caller import Caller
from springtide.scheduler import wire

JOB = wire.Job(
    id="j", name="", kind="command", user="susan", project="vision", state="running", priority=50,
    preemptible=True, workers=1, gpus=1, min_workers=1, submitted=0, argv=["x"],
)  # fmt: skip

OWNER = Caller("susan", frozenset({"vision"}))
FORMER = Caller("susan", frozenset())
COLLEAGUE = Caller("joe", frozenset({"vision"}))
STRANGER = Caller("jemma", frozenset({"speech"}))
ADMIN = Caller("root", admin=True)
SPAWNER = Caller("springtide", service=True, spawner=True)
NAMESAKE = Caller("susan", frozenset({"speech"}), service=True)


@pytest.mark.parametrize(
    ("caller", "see", "stop", "resume", "submit"),
    [
        (OWNER, True, True, True, True),
        (FORMER, True, True, False, False),
        (COLLEAGUE, True, False, False, True),
        (STRANGER, False, False, False, False),
        (ADMIN, True, True, True, True),
        (SPAWNER, False, False, False, False),
        (NAMESAKE, False, False, False, False),
    ],
)
def test_who_may_do_what_to_a_job(caller, see, stop, resume, submit):
    assert permissions.may_see_job(caller, JOB) is see
    assert permissions.may_stop_job(caller, JOB) is stop
    assert permissions.may_resume_job(caller, JOB) is resume
    assert permissions.may_submit(caller, "vision") is submit


@pytest.mark.parametrize("caller", [OWNER, COLLEAGUE, STRANGER, NAMESAKE, ADMIN])
def test_only_the_spawner_reserves_build_gpus(caller):
    assert not permissions.may_reserve(caller)
    assert permissions.may_reserve(SPAWNER)


@pytest.mark.parametrize("caller", [OWNER, COLLEAGUE, STRANGER, SPAWNER, NAMESAKE])
def test_only_administrators_administer(caller):
    assert not permissions.may_administer(caller)
    assert permissions.may_administer(ADMIN)


def test_a_service_in_a_group_may_not_submit_as_a_member():
    assert not permissions.may_submit(Caller("bot", frozenset({"vision"}), service=True), "vision")


@pytest.mark.parametrize(
    ("scopes", "admin"),
    [
        ([], False),
        (["admin:users!group=vision", "admin:groups"], False),
        ([f"{ADMIN_SCOPE}!group=vision"], False),
        ([f"{ADMIN_SCOPE}!user=susan"], False),
        ([ADMIN_SCOPE], True),
    ],
)
def test_a_filtered_administrator_is_none(scopes, admin):
    assert caller_of({"name": "x", "kind": "user", "groups": ["vision"], "scopes": scopes}, "t").admin is admin


@pytest.mark.parametrize("scopes", [[], ["access:services!service=springtide"], ["admin:users", "admin:groups"]])
def test_an_administrators_token_without_the_scope_administers_nothing(scopes):
    assert not caller_of({"name": "x", "kind": "user", "admin": True, "scopes": scopes}, "t").admin


def test_a_token_does_not_show_in_logs():
    assert "secret" not in repr(caller_of({"name": "x"}, "secret"))


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("mode", ["", "navigate", "cors", "no-cors", "same-origin", "websocket"])
@pytest.mark.parametrize("destination", ["", "empty", "document", "iframe", "object", "embed", "script", "worker"])
def test_only_a_page_that_opens_in_a_tab_is_a_page_view(method, mode, destination):
    assert is_page_view(method, mode, destination) is (
        (method, mode, destination) == ("GET", "navigate", "document")
    )
