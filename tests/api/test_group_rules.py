"""Rules that make members and leads of projects out of an identity provider's groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from springtide.hub_extension.api.hub_configuration import HubConfiguration
from springtide.hub_extension.group_rules import declared_rules, lead_roles, preview, with_projects
from springtide.scheduler.settings import SettingError
from springtide.scheduler.wire import GroupRulesView

VISION = {"group": "GRP-4711", "project": "vision"}
LEADS = {"group": "GRP-4712", "project": "vision", "role": "lead"}
REST = {"prefix": "ml-"}
TREE = {"prefix": "gpu/", "departments": True}


def joined(groups: Sequence[str], *rules: Mapping[str, Any]) -> set[str]:
    return set(with_projects(declared_rules(rules), groups)) - set(groups)


def shown(
    members: Mapping[str, Sequence[str]],
    rules: Sequence[Mapping[str, Any]],
    current: Sequence[Mapping[str, Any]] = (),
    parents: Mapping[str, str | None] | None = None,
) -> GroupRulesView:
    of_pool = {"vision": None, "speech": None} if parents is None else parents
    return preview(declared_rules(rules), declared_rules(current), members, of_pool, managed=True)


@pytest.mark.parametrize(
    ("group", "projects"),
    [
        ("GRP-4711", {"vision"}),
        ("GRP-4712", set()),
        ("ml-speech", {"speech"}),
        ("ml-", set()),
        ("ML-speech", set()),
        ("gpu/research", {"research"}),
        ("gpu/research/nlp", {"research-nlp"}),
        ("gpu//research/nlp/", {"research-nlp"}),
        ("gpu/", set()),
        ("ml-a/b", set()),
        ("staff", set()),
    ],
)
def test_a_group_becomes_the_project_that_its_rule_names(group: str, projects: set[str]) -> None:
    assert joined([group], VISION, LEADS, REST, TREE) == projects


def test_the_groups_of_the_provider_stay() -> None:
    assert with_projects(declared_rules([VISION]), ["staff", "GRP-4711"]) == ["GRP-4711", "staff", "vision"]


def test_a_rule_for_one_group_counts_before_prefixes_and_the_longest_prefix_before_others() -> None:
    one = {"group": "ml-cv", "project": "vision"}
    all_of = {"prefix": "m", "project": "everyone"}
    for rules in ((one, REST, all_of), (all_of, REST, one)):
        assert joined(["ml-cv"], *rules) == {"vision"}
        assert joined(["ml-nlp"], *rules) == {"nlp"}
        assert joined(["math"], *rules) == {"everyone"}


def test_a_group_with_two_rules_is_in_both_projects() -> None:
    assert joined(["staff"], *({"group": "staff", "project": name} for name in ("a", "b"))) == {"a", "b"}


def test_leads_are_a_role_of_the_hub_for_each_project_that_hubs_accept() -> None:
    rules = declared_rules([LEADS, {**LEADS, "group": "chiefs"}, {**LEADS, "project": "Größe 2"}, VISION])
    odd, vision = sorted(lead_roles(rules), key=lambda role: len(role["groups"]))
    assert vision["scopes"] == ["custom:springtide:project-admin!group=vision"]
    assert (vision["groups"], odd["groups"]) == (["GRP-4712", "chiefs"], ["GRP-4712"])
    assert odd["name"] != vision["name"]


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({}, "neither group nor prefix"),
        ({**VISION, "prefix": "ml-"}, "both group and prefix"),
        ({"group": "staff"}, "A rule for one group needs a project."),
        ({**REST, "role": "lead"}, "A rule for leads needs a project."),
        ({**REST, "project": "vision", "role": "lead"}, "is for one group"),
        ({**TREE, "project": "vision"}, "leave out project or departments"),
        ({"grup": "staff"}, "Did you mean group?"),
        ({**VISION, "role": "boss"}, "boss"),
        ({**VISION, "project": "a/b"}, "a/b"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_place_and_the_reason(rule: Mapping[str, Any], said: str) -> None:
    with pytest.raises(SettingError) as caught:
        declared_rules([VISION, rule])
    assert "Springtide.group_rules[1]" in str(caught.value)
    assert said in str(caught.value)


def test_a_preview_says_who_joins_and_who_leaves_at_the_next_log_in() -> None:
    members = {"GRP-4711": ["anna", "joe"], "vision": ["joe", "susan"], "staff": ["susan"]}
    view = shown(members, [VISION], [{"group": "staff", "project": "vision"}])
    [effect] = view.rules[0].effects
    assert (effect.people, effect.joins, effect.exists) == (["anna", "joe"], ["anna"], True)
    assert view.loses == {"vision": ["susan"]}


def test_members_whom_the_provider_names_directly_stay_when_a_rule_goes() -> None:
    assert (
        shown({"vision": ["susan"], "staff": ["joe"]}, [], [{"group": "staff", "project": "vision"}]).loses == {}
    )


def test_a_project_that_rules_made_is_no_group_of_the_provider() -> None:
    members = {"GRP-4711": ["joe"], "vision": ["joe"]}
    view = shown(members, [VISION, {"prefix": "v", "project": "speech"}], [VISION])
    assert [[effect.group for effect in each.effects] for each in view.rules] == [["GRP-4711"], []]


def test_missing_projects_are_a_file_with_departments_before_what_is_inside() -> None:
    view = shown({"gpu/research/nlp": ["joe"], "gpu/research": [], "ml-speech": []}, [TREE, REST])
    assert list(view.missing.projects) == ["research", "research-nlp"]
    assert view.missing.projects["research-nlp"].parent == "research"
    assert {effect.group: effect.exists for each in view.rules for effect in each.effects}["ml-speech"]


def test_a_group_whose_project_has_no_name_or_another_place_says_so() -> None:
    groups = {"ml-a/b": ["joe"], "gpu/research/nlp": ["joe"]}
    rest, tree = shown(groups, [REST, TREE], parents={"research": None, "research-nlp": "speech"}).rules
    assert "no name of a project" in rest.effects[0].problem
    assert rest.effects[0].joins == []
    assert "in “speech”, not in “research”" in tree.effects[0].problem


@pytest.mark.parametrize(
    ("rule", "group", "problem"),
    [
        (
            {"prefix": "gpu/"},
            "gpu//x",
            "“/x” is no name of a project: expected text of 1 to 64 characters without “/” or ",
        ),
        (TREE, "gpu//", "Nothing of “gpu//” is left for the name of a project."),
        (TREE, "gpu//x", ""),
    ],
)
def test_a_group_that_makes_no_project_says_what_is_wrong(
    rule: Mapping[str, Any], group: str, problem: str
) -> None:
    [effect] = shown({group: ["joe"]}, [rule]).rules[0].effects
    assert effect.problem.startswith(problem)
    assert bool(effect.problem) == bool(problem)


def test_the_lines_for_the_configuration_are_the_rules() -> None:
    view = shown({}, [TREE])
    assert eval(view.python.partition(" = ")[2]) == [TREE]
    assert view.chart == 'service: {"settings": {"group_rules": [{"prefix": "gpu/", "departments": true}]}}'


@pytest.fixture
async def pool(start):
    running = await start(hub=HubConfiguration(managed_groups=True, group_rules=(VISION, LEADS)))
    running.people.groups |= {"GRP-4711": ["susan", "anna"], "GRP-4712": ["jemma"]}
    return running


async def test_administrators_see_the_rules_and_what_others_would_do(pool):
    admin = pool.as_("admin")
    found = (await admin.get("/group-rules")).json()
    assert [rule["text"] for rule in found["rules"]] == [
        "Who is in “GRP-4711” is a member of “vision”.",
        "Who is in “GRP-4712” leads “vision”.",
    ]
    assert found["rules"][0]["effects"][0]["joins"] == ["anna"]
    other = {"rules": [{"group": "GRP-4711", "project": "speech"}]}
    looked = (await admin.post("/group-rules/preview", json=other)).json()
    assert (looked["rules"][0]["effects"][0]["joins"], looked["loses"]) == (
        ["anna", "susan"],
        {"vision": ["susan"]},
    )
    assert (await admin.get("/group-rules")).json() == found


async def test_a_preview_of_a_wrong_rule_names_it(pool):
    answer = await pool.as_("admin").post("/group-rules/preview", json={"rules": [VISION, {"group": "staff"}]})
    assert (answer.status_code, answer.json()["field"]) == (422, "rules[1]")


@pytest.mark.parametrize("user", ["susan", "bot"])
async def test_only_administrators_of_the_pool_see_rules_and_groups(pool, user):
    assert (await pool.as_(user).get("/group-rules")).status_code == 403
    assert (await pool.as_(user).post("/group-rules/preview", json={"rules": []})).status_code == 403


async def test_leads_and_members_by_rules_are_shown_locked_and_their_change_is_refused_with_the_place(pool):
    view = (await pool.as_("admin").get("/admin")).json()
    [lead] = view["leads"]["vision"]
    assert lead["name"] == "jemma"
    for locked in (lead["locked"], view["locked_members"]):
        assert "The rules for groups say which group is which project." in locked
    answer = await pool.as_("admin").put("/projects/vision/members/jemma")
    assert (answer.status_code, answer.json()["hint"]) == (409, "Change the group where people log in.")


async def test_an_exported_file_has_the_rules_among_what_it_cannot_change(pool):
    found = (await pool.as_("admin").get("/pool-file")).json()
    assert found["locked"] == [
        "The hub's authenticator decides who is in which project.",
        "By group_rules of the hub's configuration: Who is in “GRP-4711” is a member of “vision”.",
        "By group_rules of the hub's configuration: Who is in “GRP-4712” leads “vision”.",
    ]
