from __future__ import annotations

import itertools

import pytest

from springtide.hub_extension.api import permissions
from springtide.hub_extension.api.permissions import Action, Role
from springtide.hub_extension.web.auth import (
    ADMIN_SCOPE,
    PROJECT_ADMIN_SCOPE,
    READ_SCOPE,
    caller_of,
    is_page_view,
)
from springtide.hub_extension.web.caller import Caller

OWNER = Caller("susan", frozenset({"vision"}))
COLLEAGUE = Caller("joe", frozenset({"vision"}))
STRANGER = Caller("jemma", frozenset({"speech"}))
ADMIN = Caller("root", admin=True)
SPAWNER = Caller("springtide", service=True, spawner=True)
NAMESAKE = Caller("susan", frozenset({"speech"}), service=True)
TREE = {"lab": None, "vision": "lab", "robots": "vision", "speech": None}


@pytest.mark.parametrize("caller", [OWNER, COLLEAGUE, STRANGER, NAMESAKE, ADMIN])
def test_only_the_spawner_reserves_build_gpus(caller):
    assert not permissions.may_reserve(caller)
    assert permissions.may_reserve(SPAWNER)


@pytest.mark.parametrize("caller", [OWNER, COLLEAGUE, STRANGER, SPAWNER, NAMESAKE])
def test_only_administrators_administer(caller):
    assert not permissions.may_administer(caller)
    assert permissions.may_administer(ADMIN)


@pytest.mark.parametrize("more", [{}, {"administers": frozenset({"vision"})}])
def test_a_service_submits_nothing_unless_it_administers_the_pool(more):
    bot = Caller("bot", frozenset({"vision"}), service=True, **more)
    assert not permissions.may(bot, Action.SUBMIT, "vision")


@pytest.mark.parametrize(
    ("scopes", "roles"),
    [
        ([], {}),
        ([f"{READ_SCOPE}!group=vision"], {"vision": Role.VIEWER, "robots": Role.VIEWER}),
        ([READ_SCOPE], dict.fromkeys(TREE, Role.VIEWER)),
        ([f"{PROJECT_ADMIN_SCOPE}!group=vision"], {"vision": Role.PROJECT_ADMIN, "robots": Role.PROJECT_ADMIN}),
        ([PROJECT_ADMIN_SCOPE], dict.fromkeys(TREE, Role.PROJECT_ADMIN)),
        ([ADMIN_SCOPE], dict.fromkeys(TREE, Role.POOL_ADMIN)),
        ([f"{ADMIN_SCOPE}!group=vision"], {}),
        ([f"{READ_SCOPE}!user=susan", f"{PROJECT_ADMIN_SCOPE}!server=susan/"], {}),
        ([f"{READ_SCOPE}!group=", f"{PROJECT_ADMIN_SCOPE}!group="], {}),
        ([f"{READ_SCOPE}!group=nobody", f"{PROJECT_ADMIN_SCOPE}!group=*"], {}),
        ([f"{PROJECT_ADMIN_SCOPE}s!group=vision", f"{READ_SCOPE}:more"], {}),
        (
            [f"{READ_SCOPE}!group=lab", f"{PROJECT_ADMIN_SCOPE}!group=robots"],
            {"lab": Role.VIEWER, "vision": Role.VIEWER, "robots": Role.PROJECT_ADMIN},
        ),
    ],
)
def test_scopes_give_roles_in_their_projects_and_those_inside(scopes, roles):
    caller = caller_of({"name": "x", "kind": "user", "groups": [], "scopes": scopes}, "t")
    found = {name: permissions.role_in(permissions.resolved(caller, TREE), name) for name in TREE}
    assert {name: role for name, role in found.items() if role} == roles


def test_membership_does_not_reach_into_the_projects_inside():
    caller = permissions.resolved(Caller("susan", frozenset({"lab"})), TREE)
    assert [permissions.role_in(caller, name) for name in ("lab", "vision")] == [Role.MEMBER, Role.NONE]


def test_a_circle_of_projects_ends():
    caller = Caller("x", views=frozenset({"a"}))
    assert permissions.resolved(caller, {"a": "b", "b": "a", "c": None}).views == {"a", "b"}


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


def test_only_a_page_that_opens_in_a_tab_is_a_page_view():
    methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
    modes = ["", "navigate", "cors", "no-cors", "same-origin", "websocket"]
    destinations = ["", "empty", "document", "iframe", "object", "embed", "script", "worker"]
    views = [each for each in itertools.product(methods, modes, destinations) if is_page_view(*each)]
    assert views == [("GET", "navigate", "document")]
