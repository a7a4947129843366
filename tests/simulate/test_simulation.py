"""`springtide simulate`: virtual time, what pausing costs, and how the outcome is counted."""

from __future__ import annotations

import csv

import pytest

HOUR = 3600.0


def two_tenants(written, scenario, *jobs: dict):
    return written(
        scenario(
            *jobs,
            nodes=[{"name": "dgx", "gpus": 4}],
            projects=[{"name": "susan", "quota": 2}, {"name": "joe", "quota": 2}],
        )
    )


@pytest.fixture
def reclaimed(written, scenario):
    """Susan borrows the whole node with one job; after 1,000 s Joe asks for his quota."""
    return two_tenants(
        written,
        scenario,
        {"name": "s", "project": "susan", "gpus": 4, "duration": 3000},
        {"name": "j", "project": "joe", "gpus": 2, "submitted": 1000, "duration": 500},
    )


def test_a_job_alone_runs_as_long_as_it_takes(written, scenario, simulated):
    outcome = simulated(
        two_tenants(written, scenario, {"name": "a", "project": "susan", "gpus": 2, "duration": HOUR})
    )

    assert (outcome["jobs"], outcome["finished"], outcome["pauses"]) == (1, 1, 0)
    assert (outcome["makespan_s"], outcome["mean_jct_s"], outcome["mean_queue_s"]) == (HOUR, HOUR, 0)
    assert outcome["gpu_hours"] == 2
    assert outcome["utilization"] is None


def test_an_owner_gets_the_quota_back_at_once_and_the_borrower_goes_on_later(reclaimed, simulated):
    outcome = simulated(reclaimed)

    assert outcome["projects"]["joe"]["mean_jct_s"] == 500
    assert outcome["projects"]["susan"]["mean_jct_s"] == 3500
    assert (outcome["pauses"], outcome["lost_gpu_hours"], outcome["guarantee_violation_s"]) == (1, 0, 0)
    assert outcome["breaches"] == 0


def test_a_resume_costs_what_it_costs(reclaimed, simulated):
    outcome = simulated(reclaimed, "--restart-cost", 60)

    assert outcome["projects"]["susan"]["mean_jct_s"] == 3560
    assert outcome["lost_gpu_hours"] == pytest.approx(60 * 4 / HOUR, abs=1e-3)


def test_a_pause_loses_what_came_after_the_last_checkpoint(reclaimed, simulated):
    outcome = simulated(reclaimed, "--checkpoint-every", 300)

    assert outcome["projects"]["susan"]["mean_jct_s"] == 3600
    assert outcome["lost_gpu_hours"] == pytest.approx(100 * 4 / HOUR, abs=1e-3)


def test_a_started_job_is_left_alone_for_its_minimum_run_time(reclaimed, simulated):
    outcome = simulated(reclaimed, "--min-runtime", 1200)

    assert outcome["projects"]["joe"]["mean_queue_s"] == 200
    assert outcome["guarantee_violation_s"] == 0
    assert outcome["breaches"] == 0


def test_utilization_counts_what_was_held_between_the_first_and_the_last_submission(written, scenario, simulated):
    outcome = simulated(
        two_tenants(
            written,
            scenario,
            {"name": "a", "project": "susan", "gpus": 2, "duration": 500},
            {"name": "b", "project": "joe", "gpus": 1, "duration": 9000, "submitted": 1000},
        )
    )

    assert outcome["utilization"] == pytest.approx(2 * 500 / (4 * 1000))
    assert outcome["projects"]["susan"]["utilization"] == pytest.approx(2 * 500 / (4 * 1000))
    assert outcome["projects"]["joe"]["utilization"] == 0


def test_an_elastic_job_is_as_fast_as_its_workers_are_many(written, scenario, simulated):
    outcome = simulated(
        written(
            scenario(
                {"name": "e", "project": "p", "workers": 4, "min_workers": 1, "duration": 1000},
                nodes=[{"name": "small", "gpus": 2}],
                projects=[{"name": "p", "quota": 2}],
            )
        )
    )

    assert outcome["mean_jct_s"] == 2000


def test_static_quotas_lock_everybody_in_and_leave_out_what_never_fits(written, scenario, simulated):
    file = two_tenants(
        written,
        scenario,
        {"name": "wide", "project": "susan", "gpus": 4, "duration": 100},
        {"name": "first", "project": "susan", "gpus": 2, "duration": 100},
        {"name": "second", "project": "susan", "gpus": 2, "duration": 100, "submitted": 1},
    )

    static, shared = simulated(file, "--policy", "static"), simulated(file, "--order", "first-come")

    assert (static["jobs"], static["left_out"]) == (2, 1)
    assert static["projects"]["susan"]["mean_queue_s"] == pytest.approx((0 + 99) / 2)
    assert (shared["jobs"], shared["left_out"], shared["finished"]) == (3, 0, 3)


def test_static_quotas_backfill_behind_a_job_that_does_not_fit(written, scenario, simulated, tmp_path):
    file = two_tenants(
        written,
        scenario,
        {"name": "one", "project": "susan", "gpus": 1, "duration": 100},
        {"name": "two", "project": "susan", "gpus": 2, "duration": 100, "submitted": 1},
        {"name": "small", "project": "susan", "gpus": 1, "duration": 10, "submitted": 2},
    )

    simulated(file, "--policy", "static", "--jobs-out", tmp_path / "jobs.csv")

    with (tmp_path / "jobs.csv").open() as rows:
        starts = {row["name"]: float(row["start_s"]) for row in csv.DictReader(rows)}
    assert starts == {"one": 0, "two": 100, "small": 2}


def test_the_table_of_jobs_has_a_row_for_each(reclaimed, simulated, tmp_path):
    simulated(reclaimed, "--jobs-out", tmp_path / "jobs.csv")

    with (tmp_path / "jobs.csv").open() as rows:
        table = list(csv.DictReader(rows))
    assert table == [
        {
            "name": "s",
            "project": "susan",
            "submit_s": "0.0",
            "start_s": "0.0",
            "finish_s": "3500.0",
            "pauses": "1",
        },
        {
            "name": "j",
            "project": "joe",
            "submit_s": "1000.0",
            "start_s": "1000.0",
            "finish_s": "1500.0",
            "pauses": "0",
        },
    ]


def test_a_table_that_cannot_be_written_is_an_error(reclaimed, run_simulate, tmp_path):
    result = run_simulate(reclaimed, "--jobs-out", tmp_path / "nowhere" / "jobs.csv")

    assert result.exit_code == 1
    assert "cannot be written" in result.stderr


def test_a_job_that_can_never_start_does_not_keep_the_clock_running(written, scenario, simulated):
    outcome = simulated(
        two_tenants(
            written,
            scenario,
            {"name": "fixed", "project": "susan", "gpus": 4, "preemptible": False, "duration": 100},
            {"name": "b", "project": "joe", "gpus": 2, "duration": 100},
        )
    )

    assert (outcome["jobs"], outcome["finished"]) == (2, 1)
    assert outcome["projects"]["susan"]["mean_jct_s"] is None


def test_a_simulation_needs_durations(written, scenario, run_simulate):
    result = run_simulate(written(scenario({"name": "a", "project": "joe"})))

    assert result.exit_code == 2
    assert "jobs[0].duration: missing" in result.stderr


def test_running_jobs_of_the_scenario_go_on(written, scenario, simulated):
    outcome = simulated(
        written(scenario({"name": "a", "project": "joe", "gpus": 2, "placed": ["dgx"], "duration": 50}))
    )

    assert (outcome["finished"], outcome["mean_jct_s"]) == (1, 50)


def test_the_same_load_comes_out_the_same_twice(reclaimed, simulated):
    first, second = simulated(reclaimed), simulated(reclaimed)

    assert first.pop("wall_s") >= 0
    assert second.pop("wall_s") >= 0
    assert first == second


def test_percentiles_are_of_the_jobs_that_finished(written, scenario, simulated):
    jobs = [
        {
            "name": f"j{at}",
            "project": "p",
            "submitted": 0,
            "duration": 100,
            "priority": 100 - at,
            "preemptible": True,
        }
        for at in range(10)
    ]
    outcome = simulated(
        written(scenario(*jobs, nodes=[{"name": "n", "gpus": 1}], projects=[{"name": "p", "quota": 1}])),
        "--order",
        "first-come",
    )

    assert outcome["mean_queue_s"] == 450
    assert outcome["p50_queue_s"] == 400
    assert outcome["p99_queue_s"] == 900


def starts_and_ends(written, simulated, scenario, tmp_path, *args: object) -> dict[str, tuple[float, float]]:
    out = tmp_path / "jobs.csv"
    simulated(written(scenario), "--jobs-out", out, *args)
    with out.open() as file:
        return {row["name"]: (float(row["start_s"]), float(row["finish_s"])) for row in csv.DictReader(file)}


def test_all_is_decided_before_time_passes_where_times_coincide(written, scenario, simulated, tmp_path):
    """The owner's job arrives in the second in which a borrowed one ends: whatever takes its GPUs makes way."""
    pool = scenario(
        {"name": "late", "project": "owner", "submitted": 300, "duration": 1000},
        {"name": "before", "project": "owner", "gpus": 3, "duration": 250},
        {"name": "gang", "project": "owner", "gpus": 4, "duration": 100},
        {"name": "long", "project": "borrower", "gpus": 4, "duration": 1000},
        {"name": "wide", "project": "borrower", "gpus": 4, "duration": 300},
        {"name": "brief", "project": "borrower", "duration": 300},
        nodes=[{"name": "dgx", "gpus": 4}],
        projects=[{"name": "borrower"}, {"name": "owner", "quota": 1}],
    )
    outcome = simulated(written(pool), "--order", "least-served")

    assert (outcome["breaches"], outcome["guarantee_violation_s"]) == (0, 0)
    assert starts_and_ends(written, simulated, pool, tmp_path)["late"][0] == 300


@pytest.mark.parametrize("policy", ["guaranteed", "static"])
def test_a_time_limit_ends_a_job(written, scenario, simulated, tmp_path, policy):
    pool = scenario(
        {"name": "endless", "project": "susan", "gpus": 2, "duration": HOUR, "time_limit": 600},
        {"name": "exact", "project": "joe", "gpus": 2, "duration": 600, "time_limit": 600},
        {"name": "next", "project": "susan", "gpus": 2, "submitted": 1, "duration": 100},
        nodes=[{"name": "dgx", "gpus": 4}],
        projects=[{"name": "susan", "quota": 2}, {"name": "joe", "quota": 2}],
    )
    outcome = simulated(written(pool), "--policy", policy)

    assert starts_and_ends(written, simulated, pool, tmp_path, "--policy", policy) == {
        "endless": (0, 600),
        "exact": (0, 600),
        "next": (600, 700),
    }
    assert (outcome["finished"], outcome["timed_out"], outcome["makespan_s"]) == (3, 1, 700)
    assert outcome["projects"]["joe"]["timed_out"] == 0


def test_a_time_limit_is_for_all_attempts_together_and_for_their_restarts(written, scenario, simulated, tmp_path):
    """1,000 s before the pause at 1,000, and 400 s after the resume at 1,500, 60 of them to restart."""
    pool = scenario(
        {"name": "s", "project": "susan", "gpus": 4, "duration": 3000, "time_limit": 1400},
        {"name": "j", "project": "joe", "gpus": 2, "submitted": 1000, "duration": 500},
        nodes=[{"name": "dgx", "gpus": 4}],
        projects=[{"name": "susan", "quota": 2}, {"name": "joe", "quota": 2}],
    )

    assert starts_and_ends(written, simulated, pool, tmp_path, "--restart-cost", 60)["s"] == (0, 1900)


def test_a_time_limit_holds_by_the_clock_for_an_elastic_job_on_few_workers(written, scenario, simulated, tmp_path):
    pool = scenario(
        {"name": "e", "project": "p", "workers": 4, "min_workers": 1, "duration": 1000, "time_limit": 1500},
        nodes=[{"name": "small", "gpus": 2}],
        projects=[{"name": "p", "quota": 2}],
    )

    assert starts_and_ends(written, simulated, pool, tmp_path)["e"] == (0, 1500)


def test_a_job_that_the_quotas_below_its_project_keep_waiting_is_no_broken_promise(written, scenario, simulated):
    parts = [{"name": name, "parent": "team", "quota": 3} for name in ("one", "two")]
    pool = scenario(
        {"name": "firm", "project": "team", "priority": 100, "duration": 100},
        {"name": "later", "project": "one", "submitted": 5, "duration": 100},
        nodes=[{"name": "dgx", "gpus": 4}],
        projects=[{"name": "team", "quota": 4}, *parts],
    )
    outcome = simulated(written(pool))

    assert (outcome["finished"], outcome["breaches"], outcome["guarantee_violation_s"]) == (1, 0, 0)
