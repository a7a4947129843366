"""A pool with two GPU types: quotas, refusals, notebooks and views of each type."""

from __future__ import annotations

from typing import Any

import pytest
from engine_worlds import Environment, MemoryExecutor, node

from springtide.scheduler import wire
from springtide.scheduler.engine import EngineSettings
from springtide.scheduler.gpu_types import DeclaredTypes
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import StoreFullError
from springtide.scheduler.store.queries import reading

T4, A100 = node("t", 8, gpu_type="t4"), node("a", 4, gpu_type="a100")
BUILD_T4 = node("build", 2, Environment.BUILD, gpu_type="t4")
BUILD_A100 = node("build-a100", 1, Environment.BUILD, gpu_type="a100")
ALL = (T4, A100, BUILD_T4, BUILD_A100)
PROJECTS = {
    "susan": {"quota": {"t4": 4, "a100": 1}, "build_quota": {"t4": 1, "a100": 1}},
    "joe": {"quota": {"t4": 2}, "limit": {"a100": 2}, "build_quota": {"t4": 1}},
}
ORDER = EngineSettings(types=DeclaredTypes.of_setting({"t4": ["Tesla T4"], "a100": ["NVIDIA A100-SXM4-80GB"]}))


@pytest.fixture
async def two(make_pool):
    return await make_pool(executor=MemoryExecutor(ALL), settings=ORDER, projects=PROJECTS)


def edit(**fields: Any):
    return wire.ProjectEdit(**fields)


def quotas(of):
    return {name: (numbers.quota, numbers.limit) for name, numbers in of.by_type.items()}


def view(pool, name):
    return next(each for each in pool.engine.pool().projects if each.name == name)


# ---------- quotas


async def test_a_project_has_numbers_of_each_type_and_their_sums(two):
    susan, joe = view(two, "susan"), view(two, "joe")
    assert quotas(susan) == {
        "t4": (4, None),
        "a100": (1, None),
    }
    assert quotas(joe) == {"t4": (2, None), "a100": (0, 2)}
    assert (susan.quota, susan.limit, joe.quota, joe.limit) == (5, None, 2, None)
    assert (susan.build_by_type, susan.build_quota) == ({"t4": 1, "a100": 1}, 2)


async def test_the_pool_and_the_admin_page_have_sums_of_each_type(two):
    pool = two.engine.pool()
    assert pool.gpu_types == ["t4", "a100"]
    assert {name: (of.train_gpus, of.quota_sum) for name, of in pool.by_type.items()} == {
        "t4": (8, 6),
        "a100": (4, 1),
    }
    assert {name: of.build_gpus for name, of in pool.build_by_type.items()} == {"t4": 2, "a100": 1}
    sums = two.engine.admin({"susan": ["susan"], "joe": ["joe"]}).sums
    assert (sums.train_gpus, sums.quota_sum, sums.build_gpus, sums.build_quota_sum) == (12, 7, 3, 3)
    assert sums.by_type["a100"] == wire.TrainSums(train_gpus=4, quota_sum=1)
    assert sums.build_by_type["t4"] == wire.BuildSums(build_gpus=2, build_quota_sum=2)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"quota": {"t4": 7}}, ["11 t4 GPUs", "8 train t4 GPUs", "by 3 first"]),
        ({"quota": {"t4": 2, "a100": 4}, "limit": None}, ["5 a100 GPUs", "4 train a100 GPUs"]),
        ({"quota": {"a100": 3}}, ["quota of a100 GPUs of “joe” is 3 and its limit 2"]),
        (
            {"quota": 3},
            [
                "train GPUs of several types: t4 and a100",
                'such as t4=3,a100=0; in JSON and YAML {"t4": 3, "a100": 0}.',
            ],
        ),
        ({"limit": {"h100": 3}}, ["GPU type “h100”", "Types here: t4, a100"]),
        ({"build_quota": {"t4": 2}}, ["3 t4 GPUs", "2 build t4 GPUs"]),
    ],
)
async def test_an_edit_that_does_not_fit_a_type_is_refused_with_its_numbers(two, members, fields, words):
    with pytest.raises(Refusal) as refused:
        await two.engine.edit_project("joe", edit(**fields), "admin", members=members)
    told = f"{refused.value.message} {refused.value.hint}"
    assert [each for each in words if each not in told] == [], told
    assert refused.value.field == next(iter(fields))


async def test_models_and_types_mean_the_same_in_an_edit(two, members):
    changed = await two.engine.edit_project(
        "joe", edit(quota={"Tesla T4": 3, "NVIDIA-A100-SXM4-80GB": 1}), "admin", members=members
    )
    assert {name: of.quota for name, of in changed.by_type.items()} == {"t4": 3, "a100": 1}
    entry = (await two.engine.audit(None, 1)).items[0]
    assert (entry.before["quota"], entry.after["quota"]) == ({"t4": 2}, {"t4": 3, "a100": 1})
    await two.engine.undo(entry.id, "admin", members=members)
    assert view(two, "joe").by_type["t4"].quota == 2


async def test_a_table_in_an_edit_changes_the_types_that_it_names(two, members):
    changed = await two.engine.edit_project(
        "joe", edit(quota={"a100": 1}, limit={"t4": 5}), "admin", members=members
    )
    assert quotas(changed) == {"t4": (2, 5), "a100": (1, 2)}
    freed = await two.engine.edit_project(
        "joe", edit(quota={"t4": 0}, limit={"a100": None}), "admin", members=members
    )
    assert quotas(freed) == {"t4": (0, 5), "a100": (1, None)}


async def test_changes_of_one_type_after_the_other_are_taken_back_one_after_the_other(two, members):
    before = quotas(view(two, "joe"))
    await two.engine.edit_project("joe", edit(quota={"a100": 1}, limit={"t4": 5}), "admin", members=members)
    await two.engine.edit_project("joe", edit(quota={"t4": 0}, limit={"a100": None}), "admin", members=members)
    second, first = (await two.engine.audit(None, 2)).items
    await two.engine.undo(second.id, "admin", members=members)
    assert quotas(view(two, "joe")) == {"t4": (2, 5), "a100": (1, 2)}
    await two.engine.undo(first.id, "admin", members=members)
    assert quotas(view(two, "joe")) == before


async def test_a_table_changes_a_persons_build_quota_of_the_types_that_it_names(two):
    members = {"susan": ["susan"], "joe": []}
    await two.engine.edit_person("susan", wire.PersonEdit(build_quota={"t4": 2}), "admin", members=members)
    changed = await two.engine.edit_person(
        "susan", wire.PersonEdit(build_quota={"a100": 1}), "admin", members=members
    )
    assert {name: numbers.own_build_quota for name, numbers in changed.by_type.items()} == {"t4": 2, "a100": 1}


async def test_zero_and_none_need_no_type(two, members):
    changed = await two.engine.edit_project("joe", edit(quota=0, limit=None), "admin", members=members)
    assert quotas(changed) == {
        "t4": (0, None),
        "a100": (0, None),
    }


async def test_configured_quotas_of_a_pool_with_several_types_name_them(make_pool):
    with pytest.raises(Exception, match="several types: t4 and a100"):
        await make_pool(executor=MemoryExecutor(ALL), settings=ORDER, projects={"susan": {"quota": 4}})


# ---------- a type joins


async def test_quotas_stay_with_the_type_that_was_there_also_after_a_restart(make_pool, members):
    pool = await make_pool(executor=MemoryExecutor((T4, BUILD_T4)), projects={"susan": {"quota": 4, "limit": 6}})
    assert view(pool, "susan").by_type == {}
    pool.executor.change_nodes(A100, T4, BUILD_T4)
    await pool.idle()
    for _ in range(2):
        susan = view(pool, "susan")
        assert quotas(susan) == {"t4": (4, 6), "a100": (0, None)}
        assert (susan.quota, pool.engine.gpu_types()) == (4, ["t4", "a100"])
        await pool.restart()
    entry = (await pool.engine.audit(None, 1)).items[0]
    assert (entry.what, entry.after["train"]) == ("pool.gpu_types", ["t4", "a100"])


async def test_a_pool_with_one_type_tells_of_none(make_pool):
    pool = await make_pool(executor=MemoryExecutor((T4, BUILD_T4)))
    told = pool.engine.pool()
    assert (told.gpu_types, told.by_type, told.build_by_type) == (["t4"], {}, {})
    job = await pool.submit(gpus=1)
    running = await pool.state(job.id, "running")
    assert (running.gpu_type, running.attempts[0].gpu_type) == ("", "")
    assert (await pool.engine.audit(None, 10)).items[0].what == "project.create"


async def test_a_failed_commit_does_not_lose_the_type_that_joined(make_pool):
    pool = await make_pool(executor=MemoryExecutor((T4,)), projects={"susan": {"quota": 4}})
    commit = pool.store.commit
    failures: list[Any] = []

    def fail_once(batch):
        if batch.gpu_types and not failures:
            failures.append(batch)
            raise StoreFullError("The disk is full.")
        commit(batch)

    pool.store.commit = fail_once
    pool.executor.change_nodes(A100, T4)
    await pool.until(lambda: pool.store.read(reading.load).gpu_types == {Environment.TRAIN: ("t4", "a100")})
    await pool.idle()
    assert failures
    assert {name: of.quota for name, of in view(pool, "susan").by_type.items()} == {"t4": 4, "a100": 0}


# ---------- jobs


async def test_a_job_says_which_type_it_runs_on(two):
    job = await two.submit(gpus=1, gpu_types=["NVIDIA A100-SXM4-80GB"])
    running = await two.state(job.id, "running")
    assert running.options.gpu_types == ("a100",)
    assert (running.gpu_type, running.attempts[0].gpu_type) == ("a100", "a100")
    assert [gpu.node for gpu in running.held] == ["a"]
    assert not running.held[0].borrowed
    await two.restart()
    assert (await two.job(job.id)).gpu_type == "a100"


async def test_what_is_borrowed_is_counted_for_each_type(two):
    job = await two.submit(gpus=3, gpu_types=["a100"])
    running = await two.state(job.id, "running")
    assert [gpu.borrowed for gpu in running.held] == [False, True, True]
    susan = view(two, "susan")
    assert (susan.by_type["a100"].held, susan.by_type["a100"].borrowed, susan.by_type["t4"].held) == (3, 2, 0)
    assert (susan.held, susan.borrowed) == (3, 2)


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"gpus": 5, "gpu_types": ["a100"]}, "the largest train node has 4 a100 GPUs"),
        ({"gpus": 9}, "the largest train node has 8 t4 GPUs"),
        ({"gpus": 1, "gpu_types": ["h100"]}, "Types here: t4, a100"),
        ({"gpus": 1, "workers": 10, "gpu_types": ["a100"]}, "room for 4 on a100 GPUs"),
        ({"gpus": 3, "gpu_types": ["a100"], "project": "joe"}, "may never hold more than 2 a100 GPUs"),
        ({"gpus": 2, "gpu_types": ["a100"], "preemptible": False}, "quota of “susan” is 1 a100 GPUs"),
    ],
)
async def test_a_job_that_fits_no_type_that_it_accepts_is_refused_with_the_numbers(two, wish, words):
    with pytest.raises(Refusal) as refused:
        await two.submit(**wish)
    assert words in f"{refused.value.message} {refused.value.hint}"


async def test_a_job_that_fits_one_of_its_types_is_accepted(two):
    job = await two.submit(gpus=8, gpu_types=["a100", "t4"])
    assert (await two.state(job.id, "running")).gpu_type == "t4"


# ---------- notebooks


async def test_a_notebook_names_the_type_of_its_gpus(two):
    made = await two.engine.reserve_workspace("susan", "", 1, ["susan"], gpu_type="NVIDIA A100-SXM4-80GB")
    assert (made.gpu_type, made.node, made.host) == ("a100", "build-a100", "build-a100")
    again = await two.engine.reserve_workspace("susan", "", 1, ["susan"], gpu_type="a100")
    assert again == made
    quota = two.engine.build_quota("susan", ["susan"])
    assert (quota.quota, quota.held, quota.free) == (2, 1, 2)
    assert quota.by_type["a100"] == wire.BuildNumbers(quota=1, held=1, free=0)
    assert quota.by_type["t4"] == wire.BuildNumbers(quota=1, held=0, free=2)
    assert two.engine.pool().build_by_type["a100"] == wire.BuildUse(build_gpus=1, build_held=1)


async def test_without_a_type_a_notebook_gets_the_first_one_that_has_room(two):
    first = await two.engine.reserve_workspace("susan", "", 1, ["susan"])
    second = await two.engine.reserve_workspace("susan", "second", 1, ["susan"])
    assert (first.gpu_type, second.gpu_type) == ("t4", "a100")
    with pytest.raises(Refusal, match="build quota of 1 t4 GPU and holds 1"):
        await two.engine.reserve_workspace("susan", "third", 1, ["susan"])


async def test_another_type_for_a_running_notebook_is_another_reservation(two):
    await two.engine.reserve_workspace("susan", "", 1, ["susan"], gpu_type="t4")
    moved = await two.engine.reserve_workspace("susan", "", 1, ["susan"], gpu_type="a100")
    assert moved.gpu_type == "a100"
    assert two.engine.build_quota("susan", ["susan"]).held == 1


@pytest.mark.parametrize(
    ("user", "gpu_type", "words"),
    [("joe", "a100", "build quota of 0 a100 GPUs"), ("susan", "h100", "no build GPUs of the type “h100”")],
)
async def test_a_notebook_beyond_its_type_is_refused(two, user, gpu_type, words):
    with pytest.raises(Refusal, match=words):
        await two.engine.reserve_workspace(user, "", 1, [user], gpu_type=gpu_type)


async def test_a_person_has_a_build_quota_of_each_type(two, members):
    changed = await two.engine.edit_person(
        "joe", wire.PersonEdit(build_quota={"t4": 0}), "admin", members={"susan": ["susan"], "joe": ["joe"]}
    )
    assert (changed.build_quota, changed.own_build_quota) == (0, 0)
    assert changed.by_type["t4"] == wire.PersonNumbers(build_quota=0, own_build_quota=0, build_held=0)
    with pytest.raises(Refusal, match="2 a100 GPUs; there is 1 build a100 GPU"):
        await two.engine.edit_person(
            "joe", wire.PersonEdit(build_quota={"a100": 1}), "admin", members={"susan": ["susan"], "joe": ["joe"]}
        )
    with pytest.raises(Refusal, match="build GPUs of several types"):
        await two.engine.edit_person("joe", wire.PersonEdit(build_quota=1), "admin", members=members)


# ---------- choices


async def test_what_may_be_asked_for_is_that_of_the_roomiest_type(two):
    susan, joe = two.engine.choices(["susan", "joe"])
    assert (susan.max_gpus, susan.max_total, susan.free_now) == (8, 8, 8)
    assert (joe.quota, joe.limit) == (2, None)


# ---------- a story


async def test_each_type_is_borrowed_and_given_back_by_itself(make_pool):
    quota = {"t4": 4, "a100": 2}
    pool = await make_pool(
        executor=MemoryExecutor(ALL), settings=ORDER, projects={"susan": {"quota": quota}, "joe": {"quota": quota}}
    )
    on_t4 = [await pool.submit("joe", gpus=1, gpu_types=["t4"]) for _ in range(8)]
    on_a100 = await pool.submit("joe", gpus=2, gpu_types=["a100"])
    for job in (*on_t4, on_a100):
        await pool.state(job.id, "running")
    joe = view(pool, "joe")
    assert {name: (of.held, of.borrowed) for name, of in joe.by_type.items()} == {"t4": (8, 4), "a100": (2, 0)}
    either = await pool.submit("susan", gpus=2)
    assert (await pool.state(either.id, "running")).gpu_type == "a100"
    wants_t4 = await pool.submit("susan", gpus=3, gpu_types=["t4"])
    assert (await pool.state(wants_t4.id, "running")).gpu_type == "t4"
    assert (await pool.job(on_a100.id)).state == "running"
    paused = [job for job in on_t4 if (await pool.job(job.id)).state == "paused"]
    assert len(paused) == 3
    waits = (await pool.job(paused[0].id)).reason
    assert "t4" in waits.text
    pool.executor.end(pool.key(wants_t4.id), code=0)
    for job in paused:
        assert (await pool.state(job.id, "running")).gpu_type == "t4"


async def test_a_forecast_imagines_quotas_and_nodes_of_a_type(two, members):
    question = wire.WhatIf(
        job=wire.Wish(gpus=4, gpu_types=("a100",)),
        projects={"susan": edit(quota={"t4": 2, "a100": 3})},
        nodes={"a": wire.NodeEdit(gpus=8)},
    )
    outlook = await two.engine.forecast(
        question, "susan", "susan", sees=lambda _user, _project: True, members=members
    )
    assert outlook.job.likely is not None
    assert outlook.projects["susan"].by_type["a100"].quota == 3
    with pytest.raises(Refusal, match="no gpu_type, and the pool has several"):
        await two.engine.forecast(
            wire.WhatIf(nodes={"new": wire.NodeEdit(gpus=8)}),
            "susan",
            None,
            sees=lambda _user, _project: True,
            members=members,
        )


async def test_a_forecast_with_a_new_type_gives_nobody_a_quota_of_it(make_pool, members):
    pool = await make_pool(executor=MemoryExecutor((T4,)), projects={"susan": {"quota": 4}})
    outlook = await pool.engine.forecast(
        wire.WhatIf(nodes={"new": wire.NodeEdit(gpus=8, gpu_type="NVIDIA A100")}),
        "susan",
        None,
        sees=lambda _user, _project: True,
        members=members,
    )
    susan = outlook.projects["susan"].by_type
    assert {name: of.quota for name, of in susan.items()} == {"t4": 4, "a100": 0}


# ---------- the tide chart


async def test_the_tide_has_borrowed_gpus_by_type_and_quotas_as_they_were(two):
    start = two.clock.now
    two.clock.now += 10.0
    job = await two.submit("joe", gpus=6, gpu_types=("t4",))
    await two.state(job.id, "running")
    two.clock.now += 10.0
    await two.engine.edit_project("joe", edit(quota={"t4": 4, "a100": 2}), "admin", members={})
    two.clock.now += 10.0
    await two.engine.edit_project("joe", edit(quota={"t4": 0}), "admin", members={})
    two.clock.now += 10.0
    chart = await two.engine.history(start, two.clock.now)
    found = [(point.at - start, point.held, point.borrowed, point.quotas) for point in chart.points]
    assert found == [
        (0.0, {}, {}, {"joe": 2, "susan": 5}),
        (10.0, {"joe": 6}, {"joe": 4}, {}),
        (20.0, {"joe": 6}, {"joe": 2}, {"joe": 6}),
        (30.0, {"joe": 6}, {"joe": 6}, {"joe": 2}),
        (40.0, {"joe": 6}, {"joe": 6}, {}),
    ]
    later = await two.engine.history(start + 25.0, two.clock.now)
    assert later.points[0] == wire.HistoryPoint(
        at=start + 25.0, held={"joe": 6}, borrowed={"joe": 2}, total=12, quotas={"joe": 6, "susan": 5}
    )
