"""`springtide plan`: where a pool comes to rest."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def planned(written, run_plan):
    def outcome(scenario: dict, *options: str) -> dict:
        result = run_plan(*options, written(scenario))
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return outcome


def test_susan_borrows_what_nobody_uses(scenario, planned):
    outcome = planned(scenario({"name": "s1", "project": "susan", "gpus": 4}))

    assert outcome["stable"]
    assert outcome["projects"]["susan"] == {"quota": 2, "fair_share": 4, "held": 4, "request": 4}
    assert outcome["jobs"]["s1"]["running"] == 1
    assert outcome["jobs"]["s1"]["nodes"] == ["dgx"]
    assert "borrow" in outcome["jobs"]["s1"]["reason"]


def test_owners_get_their_quota_back_and_the_newest_borrowers_pause(scenario, planned):
    outcome = planned(
        scenario(
            *(
                {"name": f"s{at}", "project": "susan", "gpus": 2, "submitted": at, "placed": ["dgx"]}
                for at in range(4)
            ),
            {"name": "j1", "project": "joe", "gpus": 2, "submitted": 4},
            {"name": "m1", "project": "jemma", "gpus": 2, "submitted": 5},
        )
    )

    running = {name for name, job in outcome["jobs"].items() if job["running"]}
    assert outcome["stable"]
    assert outcome["rounds"] >= 1
    assert running == {"s0", "s1", "j1", "m1"}
    assert outcome["jobs"]["s3"]["nodes"] == []
    assert outcome["jobs"]["s3"]["reason"]


def test_a_pool_at_rest_needs_no_round(scenario, planned):
    outcome = planned(scenario({"name": "s1", "project": "susan", "gpus": 2, "placed": ["dgx"]}))

    assert (outcome["stable"], outcome["rounds"]) == (True, 0)
    assert outcome["jobs"]["s1"]["running"] == 1


def test_numbers_of_a_pool_with_several_gpu_types_are_tables_in_the_pool_s_order(scenario, planned):
    outcome = planned(
        {
            **scenario(
                {"name": "a", "project": "p", "gpus": 2, "gpu_types": ["t4"]},
                {"name": "w", "project": "p", "gpus": 8, "gpu_types": ["a100", "t4"]},
                {"name": "f", "project": "q", "gpus": 1, "placed": ["new"], "preemptible": False},
                nodes=[
                    {"name": "new", "gpus": 8, "gpu_type": "a100"},
                    {"name": "old", "gpus": 8, "gpu_type": "t4"},
                ],
                projects=[{"name": "p", "quota": {"t4": 1}}, {"name": "q", "quota": {"a100": 1}}],
            ),
            "gpu_types": ["t4"],
        }
    )

    assert outcome["projects"]["p"] == {
        "quota": {"t4": 1, "a100": 0},
        "fair_share": {"t4": 2, "a100": 7},
        "held": {"t4": 2, "a100": 0},
        "request": {"t4": 2, "a100": 8},
    }
    assert list(outcome["projects"]["p"]["held"]) == ["t4", "a100"]
    assert outcome["jobs"]["a"]["reason"] == "Running on 2 GPUs: 1 within the quota, 1 borrowed."


def test_quota_null_is_unlimited(scenario, planned):
    outcome = planned(scenario({"name": "a", "project": "p", "gpus": 8}, projects=[{"name": "p", "quota": None}]))

    assert outcome["projects"]["p"]["quota"] is None
    assert outcome["projects"]["p"]["fair_share"] == 8


def test_without_jobs_there_is_nothing_to_do(scenario, planned):
    outcome = planned(scenario())

    assert (outcome["stable"], outcome["rounds"], outcome["jobs"]) == (True, 0, {})


def test_a_forecast_tells_when_a_waiting_job_starts(scenario, planned):
    outcome = planned(
        scenario(
            {"name": "now", "project": "susan", "gpus": 8, "duration": 1000, "preemptible": True},
            {"name": "then", "project": "susan", "gpus": 8, "duration": 1000, "submitted": 1},
            projects=[{"name": "susan", "quota": 8}],
        ),
        "--forecast",
    )

    assert outcome["forecast"]["now"] == {"earliest": 0, "likely": 0, "latest": 0}
    window = outcome["forecast"]["then"]
    assert 0 < window["earliest"] <= window["likely"] <= window["latest"]


def test_a_job_that_no_node_can_hold_waits_with_that_reason(scenario, planned):
    outcome = planned(scenario({"name": "huge", "project": "susan", "gpus": 9}))

    assert outcome["stable"]
    assert outcome["jobs"]["huge"]["running"] == 0
    assert "8" in outcome["jobs"]["huge"]["reason"]


def test_placements_alone_are_those_of_the_whole_plan(scenario, planned):
    pool = scenario(
        {"name": "runs", "project": "susan", "gpus": 6, "preemptible": True},
        {"name": "waits", "project": "susan", "gpus": 6, "submitted": 1, "preemptible": True},
    )

    whole, alone = planned(pool), planned(pool, "--placements-only")

    assert all("reason" in job for job in whole["jobs"].values())
    jobs = {name: {key: job[key] for key in ("running", "nodes")} for name, job in whole["jobs"].items()}
    assert {**whole, "file": "", "jobs": jobs} == {**alone, "file": ""}


def test_weights_count_however_small_they_are(scenario, planned):
    jobs = [{"name": f"{project}{at}", "project": project} for project in ("a", "b", "c") for at in range(8)]
    projects = [{"name": "a", "weight": 1e-305}, {"name": "b", "weight": 1e-305}, {"name": "c", "weight": 0}]

    shown = planned(scenario(*jobs, projects=projects))["projects"]

    assert {name: project["fair_share"] for name, project in shown.items()} == {"a": 4, "b": 4, "c": 0}
