"""Reasons of a job whose request exceeds its project's present share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from springtide.scheduler.scenario.read import checked
from springtide.scheduler.simulate.plan_report import planned

SUSAN = {"name": "susan", "quota": 2}
JOE = {"name": "joe", "quota": 2}
HELD = [{"name": name, "project": "susan", "gpus": 4, "placed": ["dgx"]} for name in ("s1", "s2")]
LARGE = {"name": "large", "project": "joe", "gpus": 6, "submitted": 1}


def told(*jobs: dict[str, Any], projects: Sequence[dict[str, Any]] = (SUSAN, JOE), gpus: int = 8) -> Any:
    """Return the reasons of each job of a pool of one node."""
    pool = {"nodes": [{"name": "dgx", "gpus": gpus}], "projects": list(projects), "jobs": list(jobs)}
    return planned(checked(pool, "pool"), "pool")["jobs"]


def test_it_is_told_what_the_project_would_and_may_hold_and_the_lever():
    large = told(*HELD, LARGE)["large"]

    assert large["reason"] == (
        "Waiting for 6 GPUs on one node: none is free. The project “joe” holds none of its 2 GPUs."
        " Its share is 4 now; with this job it holds 6. Next in line of “joe”."
        " It could start with a quota of 6 for “joe”."
    )
    assert {"quota": {"joe": 6}} in large["starts_if"]


def test_no_quota_is_named_that_the_pool_could_not_keep():
    large = told(*HELD, LARGE, projects=({**SUSAN, "quota": 4}, JOE))["large"]

    assert "quota of" not in large["reason"]
    assert not [each for each in large["starts_if"] if "quota" in each]


def test_a_gang_is_told_that_it_does_not_fit_beside_what_its_project_holds():
    detect = {"name": "detect", "quota": 7}
    holding = [{"name": f"d{at}", "project": "detect", "placed": ["dgx"]} for at in range(5)]
    others = [{"name": f"s{at}", "project": "susan", "preemptible": False, "placed": ["dgx"]} for at in range(2)]
    gang = {"name": "gang", "project": "detect", "workers": 4, "submitted": 1}
    said = told(*holding, *others, gang, projects=(SUSAN, detect), gpus=9)["gang"]

    assert (
        "The project “detect” holds 5 of its 7 GPUs. Its share is 7 now; with this job it holds 9."
        in (said["reason"])
    )
    assert said["starts_if"]


def test_an_own_job_of_a_department_is_told_what_its_own_jobs_would_and_may_hold():
    department = {"name": "dept", "quota": 4}
    team = {"name": "team", "parent": "dept", "quota": 3}
    holding = [{"name": f"t{at}", "project": "team", "placed": ["dgx"]} for at in range(3)]
    own = {"name": "own", "project": "dept", "workers": 2, "submitted": 1}
    others = [{"name": f"s{at}", "project": "susan", "placed": ["dgx"]} for at in range(4)]
    said = told(*holding, *others, own, projects=({**SUSAN, "quota": 4}, department, team))["own"]

    assert (
        "The project “dept” holds 3 of its 4 GPUs. The share of its own jobs is 1 now; with this job they hold 2."
    ) in said["reason"]


def test_a_gang_larger_than_its_quota_is_told_what_lets_it_start():
    team = {"name": "team", "quota": 4}
    others = [{"name": f"s{at}", "project": "susan", "gpus": 2, "placed": ["dgx"]} for at in range(4)]
    gang = {"name": "gang", "project": "team", "workers": 8, "submitted": 1}

    said = told(*others, gang, projects=({**SUSAN, "quota": 4}, team))["gang"]

    assert "Next in line of “team”." in said["reason"]
    assert "It could start" in said["reason"]


@pytest.mark.parametrize(
    ("limit", "says"),
    [
        (4, "The project “joe” may hold at most 4 GPUs, and the job needs 6. With this limit it can never start."),
        (7, "Waiting for 6 GPUs"),
    ],
)
def test_a_limit_is_named_only_where_it_is_in_the_way(limit, says):
    said = told(LARGE, *HELD, projects=(SUSAN, {**JOE, "limit": limit}))["large"]

    assert said["reason"].startswith(says)


def test_a_limit_too_low_is_told_which_one_would_do():
    said = told(LARGE, projects=(SUSAN, {**JOE, "limit": 4}))["large"]

    assert said["starts_if"] == ({"limit": {"joe": 6}},)
    assert said["reason"].endswith("It could start with a limit of 6 for “joe”.")
    assert "impossible" not in said


def test_a_job_of_a_team_whose_department_is_beyond_its_share_too_names_jobs_that_run():
    department = {"name": "research", "quota": 4}
    teams = [{"name": each, "parent": "research", "quota": 2} for each in ("vision", "speech")]
    jobs = [
        {"name": "borrowed", "project": "vision", "gpus": 4, "placed": ["dgx"]},
        {"name": "own", "project": "susan", "gpus": 4, "placed": ["dgx"]},
        {"name": "waits", "project": "speech", "gpus": 3, "submitted": 1},
    ]
    said = told(*jobs, projects=({**SUSAN, "quota": 4}, department, *teams))["waits"]

    assert said["starts_if"] == () or {"remove_jobs": ("borrowed",)} in said["starts_if"]
    assert "other jobs of research" not in said["reason"]
    assert "ask for less" not in said["reason"]


def test_a_job_above_the_quota_that_cannot_be_paused_is_told_that_rather_than_to_wait_for_the_limit():
    firm = {"name": "firm", "project": "joe", "gpus": 4, "preemptible": False, "submitted": 1}
    holds = {"name": "holds", "project": "joe", "gpus": 4, "placed": ["dgx"]}
    said = told(holds, firm, projects=({**JOE, "limit": 4},))["firm"]

    assert "With this quota it can never start." in said["reason"]
    assert said["impossible"]


def test_a_job_that_cannot_be_paused_is_told_what_the_quotas_below_its_project_leave():
    parts = [{"name": name, "parent": "team", "quota": 2} for name in ("one", "two")]
    firm = {"name": "firm", "project": "team", "priority": 100}
    said = told(firm, projects=({"name": "team", "quota": 4}, *parts), gpus=4)["firm"]

    assert (
        "The projects below “team” have 4 GPUs of its quota, which leaves none to its own jobs" in said["reason"]
    )
    assert said["impossible"]
