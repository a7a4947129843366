"""What the jobs of a project may ask for: an admin sets it, refusals name it, and nothing accepted is lost."""

from __future__ import annotations

from typing import Any

import pytest

from springtide.scheduler import wire
from springtide.scheduler.engine import EngineSettings
from springtide.scheduler.engine.requests import ranges, validation
from springtide.scheduler.model import Node, Project
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.records import JobSpec
from springtide.scheduler.store.tables import JobRanges, ProjectRecord

LAB = JobRanges(
    max_priority=80, max_gpus=4, max_time_limit=3600.0, images=("lab/*",), max_cpus=8.0, max_memory=32 << 30
)
TEAM = JobRanges(min_priority=10, max_time_limit=600.0, images=("lab/train:*", "lab/base:1", "other/x"))
RECORDS = {
    "lab": ProjectRecord(Project("lab", quota=None), ranges=LAB),
    "team": ProjectRecord(Project("team", "lab", quota=None), ranges=TEAM),
    "open": ProjectRecord(Project("open", quota=None)),
}
IMAGES = ("lab/first:1", "lab/base:1", "lab/train:*", "free/*")


def accepted(project: str, images: tuple[str, ...] | None = IMAGES, **fields: Any) -> JobSpec:
    context = validation.ValidationContext((Node("a", 8),), RECORDS, EngineSettings(images=images))
    submission = wire.Submission(argv=["python"], **fields)
    return validation.validate_submission(submission, "susan", project, context, job_id="a", now=1.0)


BAD: list[tuple[str, dict[str, Any], str, str]] = [
    ("open", {"priority": 101}, "priority", "101; jobs of project “open” may have 0 to 100"),
    (
        "open",
        {"priority": 1_000_000},
        "priority",
        "names within it: train (50), high (75) and critical (100).",
    ),
    ("lab", {"priority": "critical"}, "priority", "100; jobs of project “lab” may have 0 to 80"),
    ("team", {"priority": 81}, "priority", "81; jobs of project “lab” may have 0 to 80"),
    ("team", {"priority": 9}, "priority", "9; jobs of project “team” may have 10 to 100"),
    ("lab", {"gpus": 5}, "gpus", "5 GPUs; one job of project “lab” may have up to 4"),
    ("team", {"gpus": 2, "workers": 3}, "gpus", "6 GPUs; one job of project “lab” may have up to 4"),
    ("lab", {"time_limit": "2h"}, "time_limit", "2 h; a job of project “lab” may run for up to 1 h"),
    ("team", {"time_limit": 601}, "time_limit", "10 min 1 s; a job of project “team” may run for up to 10 min"),
    ("team", {"cpus": 3, "workers": 3}, "cpus", "9 cores; one job of project “lab” may have up to 8 cores"),
    ("lab", {"memory": "33Gi"}, "memory", "33 GiB of memory; one job of project “lab” may have up to 32 GiB"),
    ("lab", {"gpus": 0, "cpus": 9}, "cpus", "9 cores; one job of project “lab” may have up to 8 cores"),
    ("lab", {"image": "free/x"}, "image", "“free/x” is not one of project “lab”, whose jobs run in lab/*"),
    (
        "team",
        {"image": "lab/first:1"},
        "image",
        "not one of project “team”, whose jobs run in lab/train:*, ",
    ),
]


@pytest.mark.parametrize(("project", "fields", "field", "words"), BAD, ids=[case[3][:40] for case in BAD])
def test_what_is_outside_the_range_is_refused_with_what_is_allowed(
    project: str, fields: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(Refusal) as refused:
        accepted(project, **fields)
    told = f"{refused.value.message} {refused.value.hint}"
    assert (refused.value.status, refused.value.code, refused.value.field) == (422, "out_of_range", field)
    assert words in told
    assert "ask an administrator of the project for a wider range" in told


@pytest.mark.parametrize(
    ("project", "fields"),
    [
        ("open", {"priority": 100, "gpus": 8, "time_limit": "30d", "image": "free/x"}),
        ("lab", {"priority": 80, "gpus": 4, "time_limit": 3600, "image": "lab/first:1", "cpus": 8}),
        ("team", {"priority": 10, "gpus": 2, "workers": 2, "time_limit": "10m", "image": "lab/train:7"}),
    ],
)
def test_what_is_inside_the_range_is_taken(project: str, fields: dict[str, Any]) -> None:
    assert accepted(project, **fields).project == project


def test_a_job_without_a_time_limit_gets_the_longest_that_is_allowed() -> None:
    assert [accepted(name).options.time_limit for name in ("open", "lab", "team")] == [None, 3600.0, 600.0]


def test_a_job_without_an_image_gets_the_first_that_pool_and_projects_allow() -> None:
    assert [accepted(name).options.image for name in ("open", "lab", "team")] == [
        "lab/first:1",
        "lab/first:1",
        "lab/base:1",
    ]


def test_on_one_machine_no_image_is_chosen() -> None:
    assert accepted("team", images=None).options.image is None


def test_a_project_whose_images_are_all_patterns_needs_the_image_named() -> None:
    with pytest.raises(Refusal, match="“team” has no default image"):
        accepted("team", images=("lab/first:1", "lab/train:*"))


def test_the_form_is_offered_what_all_projects_above_allow_too() -> None:
    merged = ranges.merged(ranges.lineage("team", RECORDS), IMAGES)
    assert merged == JobRanges(10, 80, 4, 600.0, ("lab/base:1", "lab/train:*"), max_cpus=8.0, max_memory=32 << 30)


# ---------- in the engine


def edit(**of: Any) -> wire.ProjectEdit:
    return wire.ProjectEdit(ranges=wire.JobRanges(**of))


async def test_a_range_is_kept_written_to_the_trail_and_taken_back(pool, members):
    changed = await pool.engine.edit_project("joe", edit(max_priority=60, max_gpus=2), "admin", members=members)
    assert (changed.version, changed.ranges) == (2, wire.JobRanges(max_priority=60, max_gpus=2))
    await pool.restart()
    view = next(view for view in pool.engine.pool().projects if view.name == "joe")
    assert view.ranges == wire.JobRanges(max_priority=60, max_gpus=2)
    entry = (await pool.engine.audit(None, 1)).items[0]
    assert (list(entry.before), entry.after["ranges"]["max_gpus"]) == (["ranges"], 2)
    await pool.engine.undo(entry.id, "admin", members=members)
    view = next(view for view in pool.engine.pool().projects if view.name == "joe")
    assert view.ranges == wire.JobRanges()


async def test_a_job_that_was_accepted_stays_when_the_range_becomes_narrower(pool, members):
    job = await pool.submit("joe", gpus=4, priority="high")
    await pool.engine.edit_project("joe", edit(max_priority=60, max_gpus=1), "admin", members=members)
    await pool.idle()
    assert (await pool.job(job.id)).state == "running"
    with pytest.raises(Refusal, match="may have up to 1"):
        await pool.submit("joe", gpus=2)


@pytest.mark.parametrize(
    ("of", "words"),
    [
        ({"min_priority": 60, "max_priority": 50}, "lowest priority is 60, above the highest, 50"),
        ({"images": ["lab/base:1"]}, "on one machine"),
        ({"images": []}, "No image is named"),
        ({"images": ["$(id)"]}, "no name or pattern"),
    ],
)
async def test_a_range_that_no_job_could_meet_is_refused(pool, members, of, words):
    with pytest.raises(Refusal, match=words) as refused:
        await pool.engine.edit_project("joe", edit(**of), "admin", members=members)
    assert refused.value.field == "ranges"


async def test_a_deleted_project_comes_back_with_its_ranges(pool, members):
    await pool.engine.create_project("lab", edit(max_gpus=3), "admin", members=members)
    await pool.engine.delete_project("lab", "admin")
    entry = (await pool.engine.audit(None, 1)).items[0]
    await pool.engine.undo(entry.id, "admin", members=members)
    view = next(view for view in pool.engine.pool().projects if view.name == "lab")
    assert view.ranges.max_gpus == 3


async def test_choices_tell_the_ranges(pool, members):
    await pool.engine.edit_project("joe", edit(max_gpus=3, max_priority=75), "admin", members=members)
    (joe,) = pool.engine.choices(["joe"])
    assert (joe.max_gpus, joe.max_total, joe.ranges.max_priority) == (3, 3, 75)


async def test_projects_may_be_configured_with_ranges(make_pool):
    pool = await make_pool(projects={"lab": {"quota": 1, "ranges": {"max_gpus": 2}}})
    assert pool.engine.pool().projects[0].ranges.max_gpus == 2
