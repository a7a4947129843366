"""Projects, people, quotas and workspaces."""

from __future__ import annotations

import asyncio
from typing import Any

import engine_worlds as worlds
import pytest

from springtide.scheduler import wire
from springtide.scheduler.engine import ConfigurationError
from springtide.scheduler.refusal import Refusal


def edit(**fields: Any):
    return wire.ProjectEdit(**fields)


def view(pool, name):
    return next(project for project in pool.engine.pool().projects if project.name == name)


@pytest.fixture
async def refused(pool, members):
    async def check(coroutine, status, *words: str):
        before = pool.engine.pool().projects
        audit = (await pool.engine.audit(None, 100)).items
        with pytest.raises(Refusal) as refusal:
            await coroutine
        told = f"{refusal.value.message} {refusal.value.hint}"
        assert refusal.value.status == status, told
        assert all(word in told for word in words), told
        assert pool.engine.pool().projects == before
        assert (await pool.engine.audit(None, 100)).items == audit
        return refusal.value

    return check


# ---------- projects


async def test_a_change_shows_at_once_and_is_written_to_the_trail(pool, members):
    changed = await pool.engine.edit_project("joe", edit(quota=4, weight=2.0), "admin", members=members)
    assert (changed.quota, changed.weight, changed.version, changed.members) == (4, 2.0, 2, ["joe"])
    assert view(pool, "joe").quota == 4
    entry = (await pool.engine.audit(None, 1)).items[0]
    assert (entry.who, entry.what, entry.subject, entry.undo) == ("admin", "project.change", "joe", True)
    assert (entry.before, entry.after) == ({"quota": 2, "weight": 1.0}, {"quota": 4, "weight": 2.0})
    await pool.restart()
    assert view(pool, "joe").quota == 4


async def test_a_change_of_nothing_is_no_change(pool, members):
    trail = (await pool.engine.audit(None, 100)).items
    await pool.engine.edit_project("joe", edit(quota=2), "admin", members=members)
    assert view(pool, "joe").version == 1
    assert (await pool.engine.audit(None, 100)).items == trail


async def test_quotas_have_to_fit_the_pool(pool, members, refused):
    change = pool.engine.edit_project("joe", edit(quota=5), "admin", members=members)
    refusal = await refused(change, 409, "9 GPUs", "8 train GPUs", "by 1")
    assert refusal.field == "quota"


async def test_quotas_of_children_have_to_fit_their_parent(pool, members, refused):
    create = pool.engine.create_project
    await create("lab", edit(quota=1, parent="joe"), "admin", members=members)
    await refused(create("desk", edit(quota=2, parent="joe"), "admin", members=members), 409, "“joe”", "3", "2")
    await refused(pool.engine.edit_project("joe", edit(quota=0), "admin", members=members), 409, "1", "0")


async def test_an_unlimited_quota_takes_the_whole_pool(pool, members, refused):
    change = pool.engine.edit_project
    await refused(change("joe", edit(quota=None), "admin", members=members), 409, "12 GPUs")
    for name in ("susan", "jemma"):
        await change(name, edit(quota=0), "admin", members=members)
    assert (await change("joe", edit(quota=None), "admin", members=members)).quota is None


async def test_sums_that_do_not_add_up_any_more_can_be_mended_step_by_step(pool, members, refused):
    pool.executor.change_nodes(worlds.node("train", 2), worlds.EIGHT[1])
    await pool.idle()
    change = pool.engine.edit_project
    assert (await change("joe", edit(quota=1), "admin", members=members)).quota == 1
    await refused(change("joe", edit(quota=2), "admin", members=members), 409, "2 train GPUs")


async def test_a_quota_cannot_exceed_the_limit(pool, members, refused):
    change = pool.engine.edit_project("joe", edit(limit=1), "admin", members=members)
    assert (await refused(change, 422, "quota", "limit")).field == "limit"


async def test_projects_cannot_be_in_each_other(pool, members, refused):
    change = pool.engine.edit_project
    await change("joe", edit(parent="susan"), "admin", members=members)
    await refused(change("susan", edit(parent="joe"), "admin", members=members), 422, "joe", "susan")
    await refused(change("susan", edit(parent="susan"), "admin", members=members), 422, "susan")
    await refused(change("susan", edit(parent="nobody"), "admin", members=members), 422, "nobody")


async def test_a_change_of_an_old_version_is_refused(pool, members, refused):
    change = pool.engine.edit_project
    await change("joe", edit(weight=2.0, version=1), "admin", members=members)
    stale = change("joe", edit(weight=3.0, version=1), "admin", members=members)
    assert (await refused(stale, 409, "from version 1 to 2")).field == "version"


async def test_a_stale_change_is_refused_with_who_has_changed_what_since(pool, members, refused):
    change = pool.engine.edit_project
    await change("joe", edit(weight=2.0), "first", members=members)
    await pool.engine.freeze("joe", wire.FreezeRequest(why="Late."), "ice", members=members)
    await change("joe", edit(quota=1, limit=6), "mia", members=members)
    await change("joe", edit(quota=3), "ann", members=members)
    stale = change("joe", edit(quota=0, version=2), "admin", members=members)
    message = (await refused(stale, 409, "“mia” changed it at 1970", ": quota 2 → 1, limit none → 6.")).message
    assert message.endswith(": quota 1 → 3.")
    assert "“ann” changed it" in message
    assert not [name for name in ("first", "ice") if name in message], "what was seen, and what is no field"


@pytest.mark.parametrize("what", ["edit", "freeze", "unfreeze", "delete", "budget", "no budget"])
async def test_a_change_of_a_project_that_was_deleted_says_who_deleted_it(pool, members, refused, what):
    engine = pool.engine
    await engine.delete_project("joe", "mia")
    work = {
        "edit": lambda: engine.edit_project("joe", edit(quota=1, version=1), "admin", members=members),
        "freeze": lambda: engine.freeze("joe", wire.FreezeRequest(), "admin", members=members),
        "unfreeze": lambda: engine.unfreeze("joe", "admin", members=members),
        "delete": lambda: engine.delete_project("joe", "admin"),
        "budget": lambda: engine.budgets.set("joe", wire.BudgetRequest(amount=1, unit="gpu-hours"), "admin"),
        "no budget": lambda: engine.budgets.remove("joe", "admin"),
    }
    await refused(work[what](), 404, "There is no project “joe”. “mia” deleted it at 1970-01-12")


async def test_a_project_that_never_was_is_nobodys_doing(pool, members, refused):
    await pool.engine.delete_project("joe", "mia")
    edited = pool.engine.edit_project("nobody", edit(quota=1), "admin", members=members)
    assert (await refused(edited, 404)).message == "There is no project “nobody”."


async def test_two_changes_at_once_cannot_both_take_the_last_gpu(pool, members):
    outcomes = await asyncio.gather(
        pool.engine.edit_project("joe", edit(quota=4), "admin", members=members),
        pool.engine.edit_project("susan", edit(quota=4), "admin", members=members),
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, Refusal) for outcome in outcomes) == 1
    assert sum(project.quota for project in pool.engine.pool().projects) == 8


@pytest.mark.parametrize("name", ["..", "", "a/b", "a\n", "x" * 65, " a", "a\u202e"])
async def test_names_of_projects_are_plain(pool, members, refused, name):
    await refused(pool.engine.create_project(name, edit(), "admin", members=members), 422, "name")


@pytest.mark.parametrize(
    "bad", [{"quota": -1}, {"weight": -1.0}, {"weight": float("nan")}, {"build_quota": -1}, {"priority": -1}]
)
async def test_absurd_numbers_are_refused(pool, members, refused, bad):
    await refused(pool.engine.edit_project("joe", edit(**bad), "admin", members=members), 422, "joe")


async def test_a_project_is_created_once_and_keeps_its_colour(pool, members, refused):
    made = await pool.engine.create_project("lab", edit(quota=1), "admin", members=members)
    assert made.colour == 3
    await refused(pool.engine.create_project("lab", edit(), "admin", members=members), 409, "already")
    await pool.engine.delete_project("lab", "admin")
    again = await pool.engine.create_project("lab", edit(), "admin", members=members)
    assert again.colour == 4


async def test_a_project_in_use_is_not_deleted(pool, members, refused):
    job = await pool.submit("joe", gpus=1)
    await refused(pool.engine.delete_project("joe", "admin"), 409, "1 unfinished job")
    await pool.engine.cancel(job.id, "joe")
    await pool.state(job.id, "cancelled")
    await pool.engine.create_project("lab", edit(parent="joe"), "admin", members=members)
    await refused(pool.engine.delete_project("joe", "admin"), 409, "lab")
    await refused(pool.engine.delete_project("nobody", "admin"), 404, "nobody")


# ---------- undo


async def test_changes_can_be_taken_back(pool, members):
    engine = pool.engine
    await engine.edit_project("joe", edit(quota=1), "admin", members=members)
    await engine.create_project("lab", edit(quota=1), "admin", members=members)
    await engine.edit_person("susan", wire.PersonEdit(build_quota=0), "admin", members=members)
    await engine.delete_project("jemma", "admin")
    for entry in (await engine.audit(None, 4)).items:
        undone = await engine.undo(entry.id, "admin", members=members)
        assert undone.id > entry.id
        assert (undone.what, undone.undo) == (f"undo.{entry.what}", False)
        assert not (await engine.audit_entry(entry.id)).undo
    assert view(pool, "joe").quota == 2
    assert {project.name for project in engine.pool().projects} == {"susan", "joe", "jemma"}
    assert view(pool, "jemma").colour == 2
    assert engine.admin(members).people[2].build_quota == 1


async def test_a_change_that_was_overtaken_cannot_be_taken_back(pool, members, refused):
    engine = pool.engine
    await engine.edit_project("joe", edit(quota=1), "admin", members=members)
    entry = (await engine.audit(None, 1)).items[0]
    await engine.edit_project("joe", edit(quota=0), "admin", members=members)
    await refused(engine.undo(entry.id, "admin", members=members), 409, "changed since")
    await refused(engine.undo(9999, "admin", members=members), 404, "9999")


async def test_what_happened_elsewhere_is_on_the_trail_and_undone_there(pool, members, refused):
    number = await pool.engine.record("admin", "member.add", "joe", {"members": []}, {"members": ["x"]})
    entry = await pool.engine.audit_entry(number)
    assert (entry.what, entry.after, entry.undo) == ("member.add", {"members": ["x"]}, True)
    await refused(pool.engine.undo(number, "admin", members=members), 409, "member.add")


async def test_cancelling_somebody_elses_job_is_on_the_trail(pool):
    job = await pool.submit(gpus=1, name="mine")
    await pool.engine.cancel(job.id, "admin")
    entry = (await pool.engine.audit(None, 1)).items[0]
    assert (entry.who, entry.what, entry.subject) == ("admin", "job.cancel", job.id)


async def test_the_trail_comes_in_pages(pool):
    for number in range(5):
        await pool.engine.record("admin", "note", str(number), {}, {})
    page = await pool.engine.audit(None, 3)
    assert [entry.subject for entry in page.items] == ["4", "3", "2"]
    page = await pool.engine.audit(page.next, 2)
    assert [entry.subject for entry in page.items] == ["1", "0"]


# ---------- people and build quotas


async def test_build_quotas_of_all_members_have_to_fit_the_build_gpus(pool, members, refused):
    change = pool.engine.edit_project("joe", edit(build_quota=2), "admin", members=members)
    assert (await refused(change, 409, "4 GPUs", "3 build GPUs")).field == "build_quota"
    person = pool.engine.edit_person("joe", wire.PersonEdit(build_quota=2), "admin", members=members)
    await refused(person, 409, "4 GPUs")
    await pool.engine.edit_person("susan", wire.PersonEdit(build_quota=0), "admin", members=members)
    changed = await pool.engine.edit_person("joe", wire.PersonEdit(build_quota=2), "admin", members=members)
    assert (changed.build_quota, changed.own_build_quota, changed.projects) == (2, 2, ["joe"])
    sums = pool.engine.admin(members).sums
    assert (sums.build_quota_sum, sums.build_gpus, sums.quota_sum, sums.train_gpus) == (3, 3, 6, 8)


async def test_new_members_have_to_fit_too(pool, members):
    with pytest.raises(Refusal, match="4 GPUs"):
        pool.engine.check_members({**members, "joe": ["joe", "new"]})
    pool.engine.check_members({**members, "joe": ["joe", "susan"]})


async def test_the_largest_of_a_persons_projects_counts(pool, members):
    await pool.engine.edit_project("jemma", edit(build_quota=0), "admin", members=members)
    assert pool.engine.build_quota("x", ["joe", "jemma", "unknown"]).quota == 1
    assert pool.engine.build_quota("x", []).quota == 0


# ---------- configuration


@pytest.mark.parametrize(
    ("projects", "words"),
    [
        ({"a": {"quota": 9}}, "9 GPUs"),
        ({"a": {"quotta": 1}}, "quotta"),
        ({"a": {"quota": "many"}}, "quota"),
        ({"a": {"parent": "b"}, "b": {"parent": "a"}}, "circle"),
        ({"a": {"parent": "nobody"}}, "nobody"),
    ],
)
async def test_a_configuration_that_cannot_be_stops_the_start_in_words(make_pool, projects, words):
    with pytest.raises(ConfigurationError, match=words):
        await make_pool(projects=projects)


async def test_configured_children_may_come_before_their_parents(make_pool):
    pool = await make_pool(projects={"vision": {"parent": "research", "quota": 1}, "research": {"quota": 4}})
    assert view(pool, "vision").parent == "research"


# ---------- workspaces


async def test_a_workspace_gets_build_gpus_of_its_own(pool):
    made = await pool.engine.reserve_workspace("susan", "", 1, ["susan"])
    assert (made.gpus, made.labels, made.node, made.simulated) == (1, ["build 0"], "build", True)
    assert made.uuids == ["GPU-build-0"]
    other = await pool.engine.reserve_workspace("joe", "", 1, ["joe"])
    assert other.labels == ["build 1"]
    cells = pool.engine.pool().nodes[1].gpus
    assert [cell.holder.user if cell.holder else None for cell in cells] == ["susan", "joe", None]
    assert pool.engine.pool().build_held == 2


async def test_reserving_again_answers_the_same_also_after_a_restart(pool):
    made = await pool.engine.reserve_workspace("susan", "", 1, ["susan"])
    assert await pool.engine.reserve_workspace("susan", "", 1, ["susan"]) == made
    await pool.restart()
    assert pool.engine.workspaces() == [made]
    assert await pool.engine.reserve_workspace("susan", "", 1, ["susan"]) == made
    await pool.engine.release_workspace("susan", "")
    await pool.engine.release_workspace("susan", "")
    assert pool.engine.workspaces() == []


async def test_beyond_the_quota_is_refused_with_who_can_change_it(pool):
    await pool.engine.reserve_workspace("susan", "", 1, ["susan"])
    with pytest.raises(Refusal) as refused:
        await pool.engine.reserve_workspace("susan", "second", 1, ["susan"])
    told = f"{refused.value.message} {refused.value.hint}"
    assert refused.value.status == 409
    assert "quota of 1 GPU" in told
    assert "holds 1" in told
    assert "admin of this hub" in told
    assert (await pool.engine.reserve_workspace("susan", "second", 0, ["susan"])).uuids == []


async def test_a_hundred_at_once_never_exceed_the_quota(pool):
    outcomes = await asyncio.gather(
        *(pool.engine.reserve_workspace("susan", str(n), 1, ["susan"]) for n in range(100)), return_exceptions=True
    )
    assert sum(isinstance(outcome, wire.Workspace) for outcome in outcomes) == 1
    quota = pool.engine.build_quota("susan", ["susan"])
    assert (quota.quota, quota.held, quota.free) == (1, 1, 2)


async def test_build_gpus_that_something_else_uses_are_not_given_out(pool):
    pool.executor.change_nodes(
        worlds.EIGHT[0], worlds.node("build", 3, worlds.Environment.BUILD, taken=frozenset({0, 1, 2}))
    )
    await pool.idle()
    with pytest.raises(Refusal, match="only 0 build GPUs are free"):
        await pool.engine.reserve_workspace("susan", "", 1, ["susan"])


async def test_a_workspace_can_change_its_size_within_the_quota(pool, members):
    await pool.engine.edit_person("joe", wire.PersonEdit(build_quota=0), "admin", members=members)
    await pool.engine.edit_person("susan", wire.PersonEdit(build_quota=2), "admin", members=members)
    await pool.engine.reserve_workspace("susan", "", 1, ["susan"])
    assert (await pool.engine.reserve_workspace("susan", "", 2, ["susan"])).gpus == 2
    assert (await pool.engine.reserve_workspace("susan", "", 0, ["susan"])).gpus == 0
    assert pool.engine.build_quota("susan", ["susan"]).held == 0


async def test_train_jobs_never_sit_on_build_gpus(pool):
    jobs = [await pool.submit(gpus=1) for _ in range(10)]
    await pool.idle()
    held = [gpu.node for job in jobs for gpu in (await pool.job(job.id)).held]
    assert held == ["train"] * 8


async def test_choices_tell_what_may_be_asked_for(pool, members):
    await pool.engine.edit_project("joe", edit(limit=3), "admin", members=members)
    job = await pool.submit(gpus=6)
    await pool.state(job.id, "running")
    susan, joe = pool.engine.choices(["susan", "joe", "unknown"])
    assert (susan.max_gpus, susan.max_total, susan.free_now) == (8, 8, 2)
    assert (joe.max_gpus, joe.max_total, joe.free_now) == (3, 3, 2)
