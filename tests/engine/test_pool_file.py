"""The pool as a file: what it says, what applying one changes, and why one is refused."""

from __future__ import annotations

from typing import Any

import engine_worlds as worlds
import msgspec
import pytest

from springtide.scheduler import wire
from springtide.scheduler.engine.requests.hub_users import Seen
from springtide.scheduler.engine.requests.pool_file import Memberships, Question
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.tables import IdleRule, RuleScope

MEMBERS = {"susan": ["susan"], "joe": ["joe"], "jemma": ["jemma"]}


def memberships(**more: Any) -> Memberships:
    return Memberships(MEMBERS, **more)


def question(file: Any, of: Memberships | None = None, **more: Any) -> Question:
    return Question(msgspec.convert(file, wire.PoolFile), "admin", of or memberships(), **more)


def compare(pool, file, of=None, **more: Any):
    return pool.engine.compare_pool_file(question(file, of, **more))


def texts(outcome) -> list[str]:
    return [change.text for change in outcome.difference.changes]


def reasons(outcome) -> list[str]:
    return [f"{each.field}: {each.message} {each.hint}" for each in outcome.difference.problems]


def exported(pool, of=None) -> dict[str, Any]:
    return msgspec.to_builtins(pool.engine.pool_file(of or memberships()).file)


def quotas(pool) -> dict[str, int]:
    return {project.name: project.quota for project in pool.engine.pool().projects}


@pytest.fixture
async def rich(pool):
    """A pool with a tree, ranges, rules and people with numbers of their own."""
    edits = {
        "lab": wire.ProjectEdit(parent="joe", quota=1, limit=3, weight=2.5),
        "desk": wire.ProjectEdit(ranges=wire.JobRanges(max_gpus=2, max_memory=64 << 30, max_time_limit=3600.0)),
    }
    for name, edit in edits.items():
        await pool.engine.create_project(name, edit, "admin", members=MEMBERS)
    await pool.engine.edit_person("susan", wire.PersonEdit(build_quota=0), "admin", members=MEMBERS)
    rules = pool.engine.idle_workspaces
    await rules.set_rule((RuleScope.POOL, ""), IdleRule(7200.0, 1800.0), "admin")
    await rules.set_rule((RuleScope.PROJECT, "joe"), IdleRule(), "admin")
    await rules.set_rule((RuleScope.PERSON, "jemma"), IdleRule(3600.0), "admin")
    return pool


async def test_what_was_exported_changes_nothing(rich):
    for prune in (False, True):
        found = compare(rich, exported(rich), prune=prune)
        assert (texts(found), found.difference.kept, reasons(found)) == ([], [], [])
    assert list(exported(rich)["projects"]) == ["desk", "jemma", "joe", "lab", "susan"]


async def test_an_exported_file_brings_everything_back(rich):
    before = exported(rich)
    other = {
        "projects": {
            "joe": {"quota": 0, "idle": None},
            "lab": {"parent": None, "limit": None},
            "desk": {"ranges": {}},
        },
        "people": {"susan": {"build_quota": None}, "jemma": {"idle": None}},
        "idle": None,
    }
    await rich.engine.apply_pool_file(question(other))
    assert exported(rich) != before
    await rich.engine.apply_pool_file(question(before))
    assert exported(rich) == before


async def test_each_change_is_a_sentence(rich):
    file = {
        "idle": {"tell_after": 3600},
        "projects": {
            "joe": {"quota": 3, "limit": 6, "members": ["joe", "susan"]},
            "lab": {"parent": None, "quota": 0, "limit": 4},
            "nlp": {"parent": "joe", "quota": 1, "weight": 2},
            "desk": {"ranges": {"max_gpus": 4, "images": None}, "priority": 50},
        },
        "people": {"susan": {"build_quota": None}, "joe": {"build_quota": 0}},
    }
    assert texts(compare(rich, file)) == [
        "The whole pool: rule for idle workspaces notify after 2 h, stop 30 min later → notify after 1 h",
        "“desk”: priority 100 → 50",
        "“desk”: range max_gpus 2 → 4",
        "“desk”: range max_memory 64Gi → none",
        "“desk”: range max_time_limit 1 h → none",
        "“joe”: quota 2 → 3",
        "“joe”: limit none → 6",
        "“joe”: “susan” becomes a member",
        "“nlp” is a new project, in “joe”",
        "“nlp”: quota 0 → 1",
        "“nlp”: weight 1 → 2",
        "“lab”: in “joe” → at the top",
        "“lab”: quota 1 → 0",
        "“lab”: limit 3 → 4",
        "“joe”: own build quota none → 0",
        "“susan”: own build quota 0 → none",
    ]


@pytest.mark.parametrize("order", [("joe", "susan"), ("susan", "joe")])
async def test_gpus_go_from_one_project_to_another_in_any_order(pool, order):
    await pool.engine.edit_project("jemma", wire.ProjectEdit(quota=4), "admin", members=MEMBERS)
    wanted = {"joe": 0, "susan": 4}
    file = {"projects": {name: {"quota": wanted[name]} for name in order}}
    done = await pool.engine.apply_pool_file(question(file))
    assert (done.difference.applied, quotas(pool)) == (True, {**wanted, "jemma": 4})


async def test_projects_change_places_and_are_made_inside_each_other_in_any_order(rich):
    file = {
        "projects": {
            "deep": {"parent": "new"},
            "joe": {"parent": "lab", "quota": 1},
            "lab": {"parent": "new", "quota": 1},
            "new": {"quota": 1},
        }
    }
    await rich.engine.apply_pool_file(question(file))
    parents = {project.name: project.parent for project in rich.engine.pool().projects}
    assert [parents[name] for name in ("deep", "joe", "lab", "new")] == ["new", "lab", "new", None]


async def test_a_file_is_refused_as_a_whole_with_all_reasons(rich):
    await rich.engine.follow_hub(Seen({name: name for name in ("susan", "joe", "jemma")}, MEMBERS))
    file = {
        "projects": {
            "joe": {"parent": "lab", "quota": {"a100": 1}, "members": ["jo"]},
            "Susan": {"quota": 1},
            "susan": {"parent": "nobody"},
            "jemma": {"quota": 5, "limit": 4},
        },
        "people": {"lisa": {"build_quota": 1}},
    }
    before, trail = exported(rich), await rich.engine.audit(None, 100)
    found = compare(rich, file)
    said = "\n".join(reasons(found))
    for words in (
        "projects.joe.quota: quota names the GPU type “a100”",
        "projects.joe.members: The hub has no user named “jo”. Did you mean “joe”?",
        "projects.Susan.name: There is a project “susan” already. Names that differ in case only",
        "There is no project “nobody”.",
        "The quota of “jemma” is 5 and its limit 4",
        "people.lisa: The hub has no user named “lisa”.",
    ):
        assert words in said, said
    assert texts(found) == []
    with pytest.raises(Refusal, match="refused as a whole") as refusal:
        await rich.engine.apply_pool_file(question(file))
    assert (refusal.value.status, "“nobody”" in refusal.value.message) == (422, True)
    assert (exported(rich), await rich.engine.audit(None, 100)) == (before, trail)


async def test_projects_in_a_circle_and_sums_that_do_not_fit_are_refused_with_the_numbers(rich):
    file = {"projects": {"joe": {"parent": "lab"}, "susan": {"quota": 9, "build_quota": 5}}}
    said = "\n".join(reasons(compare(rich, file)))
    assert "“lab” is in “joe” itself" in said
    assert "The quotas of the top projects would add up to 11 GPUs; the pool has 8 train GPUs." in said
    people = {"people": {"jemma": {"build_quota": 9}}}
    assert "The build quotas of all members would add up to 10 GPUs" in "\n".join(reasons(compare(rich, people)))


async def test_build_quotas_count_the_members_that_the_file_leaves(pool):
    file = {"projects": {"joe": {"members": []}, "jemma": {"build_quota": 2, "members": ["jemma"]}}}
    assert texts(compare(pool, file)) == ["“jemma”: build quota 1 → 2", "“joe”: “joe” is no member any more"]
    assert reasons(compare(pool, file)) == []


async def test_the_trail_names_the_file_and_each_change_can_be_undone(pool):
    await pool.engine.apply_pool_file(question({"projects": {"joe": {"quota": 1, "weight": 3}}}, name="pool.yaml"))
    entry = (await pool.engine.audit(None, 1)).items[0]
    assert (entry.what, entry.subject, entry.before) == ("project.change", "joe", {"quota": 2, "weight": 1.0})
    assert entry.after == {"quota": 1, "weight": 3.0, "file": "pool.yaml"}
    await pool.engine.undo(entry.id, "admin", members=MEMBERS)
    assert quotas(pool)["joe"] == 2


async def test_a_pool_that_was_changed_since_the_difference_is_left_alone(pool):
    file = {"projects": {"joe": {"quota": 1}}}
    version = compare(pool, file).difference.version
    await pool.engine.edit_project("susan", wire.ProjectEdit(weight=2.0), "jemma", members=MEMBERS)
    with pytest.raises(Refusal, match="changed since") as refusal:
        await pool.engine.apply_pool_file(question(file, version=version))
    assert (refusal.value.status, quotas(pool)["joe"]) == (409, 2)
    await pool.engine.apply_pool_file(question(file, version=compare(pool, file).difference.version))
    assert quotas(pool)["joe"] == 1


async def test_what_a_file_leaves_out_stays_unless_it_is_to_be_pruned(rich):
    file = exported(rich)
    for name in ("joe", "lab"):
        del file["projects"][name]
    del file["people"]["susan"]
    stays = compare(rich, file)
    assert (texts(stays), stays.difference.kept) == (
        [],
        ["“joe” is not in the file and stays as it is.", "“lab” is not in the file and stays as it is."],
    )
    assert compare(rich, file, partial=True).difference.kept == []
    pruned = await rich.engine.apply_pool_file(question(file, prune=True))
    assert texts(pruned) == ["“joe” is deleted", "“lab” is deleted", "“susan”: own build quota 0 → none"]
    assert sorted(quotas(rich)) == ["desk", "jemma", "susan"]


async def test_a_project_with_jobs_is_not_pruned(pool):
    await pool.submit("joe", gpus=1)
    file = exported(pool)
    del file["projects"]["joe"]
    assert reasons(compare(pool, file, prune=True)) == [
        "projects.joe: The project “joe” has 1 unfinished job. Wait for them to end, or cancel them."
    ]


async def test_a_value_for_a_time_counts_as_the_one_that_returns(pool):
    until = pool.clock() + 3600
    await pool.engine.edit_project("joe", wire.ProjectEdit(quota=1, until=until), "admin", members=MEMBERS)
    await pool.engine.edit_person("joe", wire.PersonEdit(build_quota=0, until=until), "admin", members=MEMBERS)
    file = exported(pool)
    assert (file["projects"]["joe"]["quota"], "people" in file) == (2, False)
    await pool.engine.apply_pool_file(question({"projects": {"joe": {"quota": 2, "weight": 2}}}))
    assert quotas(pool)["joe"] == 1, "the change for a time goes on"
    await pool.later(3601)
    assert quotas(pool)["joe"] == 2


async def test_a_value_that_cannot_return_any_more_is_not_in_the_file(pool):
    until = pool.clock() + 3600
    for name in ("speech", "robots"):
        edit = wire.ProjectEdit(quota=1, parent="joe")
        await pool.engine.create_project(name, edit, "admin", members=MEMBERS)
    await pool.engine.edit_project("speech", wire.ProjectEdit(quota=0, until=until), "admin", members=MEMBERS)
    assert exported(pool)["projects"]["speech"]["quota"] == 1
    await pool.engine.edit_project("robots", wire.ProjectEdit(quota=2), "admin", members=MEMBERS)
    file = exported(pool)
    assert [file["projects"][name]["quota"] for name in ("joe", "speech", "robots")] == [2, 0, 2]
    assert reasons(compare(pool, file)) == []
    assert texts(compare(pool, file)) == []


async def test_members_whom_the_hub_decides_about_are_left_alone_and_named(pool):
    file = {"projects": {"joe": {"quota": 1, "members": ["susan"]}}}
    managed = compare(pool, file, memberships(managed=True))
    assert (texts(managed), managed.members["joe"]) == (["“joe”: quota 2 → 1"], ["joe"])
    assert managed.difference.kept[0] == "The hub's authenticator decides who is in “joe”."
    assert "members" not in exported(pool, memberships(managed=True))["projects"]["joe"]
    configured = compare(pool, file, memberships(configured={"joe": ["joe"]}))
    assert (configured.members["joe"], configured.difference.kept[0]) == (
        ["joe", "susan"],
        "“joe” stays in “joe”: the hub's configuration adds her at each start.",
    )


async def test_numbers_of_several_types_are_whole_tables_in_the_order_of_the_pool(make_pool):
    nodes = (worlds.node("t", 4, gpu_type="t4"), worlds.node("a", 4, gpu_type="a100"))
    pool = await make_pool(
        executor=worlds.MemoryExecutor(nodes=nodes), projects={"joe": {"quota": {"t4": 2, "a100": 1}}}
    )
    assert exported(pool)["projects"]["joe"]["quota"] == {"a100": 1, "t4": 2}
    file = {"projects": {"joe": {"quota": {"a100": 3}, "limit": {"a100": 4}}}}
    found = await pool.engine.apply_pool_file(question(file))
    assert texts(found) == [
        "“joe”: a100 quota 1 → 3",
        "“joe”: t4 quota 2 → 0",
        "“joe”: a100 limit none → 4",
    ]
