"""`springtide simulate` on scenarios that tell of a past: spans, changes of the pool, and what befell jobs."""

from __future__ import annotations

import csv

import pytest

HOUR = 3600.0


@pytest.fixture
def played(written, scenario, simulated, tmp_path):
    """Simulates jobs of susan and joe on a node of 4 GPUs; returns the outcome, and start and end by job."""

    def play(*jobs: dict, **past: object):
        nodes = past.pop("nodes", [{"name": "dgx", "gpus": 4}])
        pool = scenario(*jobs, nodes=nodes, projects=[{"name": "susan", "quota": 2}, {"name": "joe", "quota": 2}])
        table = tmp_path / "jobs.csv"
        outcome = simulated(written({**pool, **past}), "--jobs-out", table)
        with table.open() as lines:
            found = {row["name"]: (row["start_s"], row["finish_s"]) for row in csv.DictReader(lines)}
        return outcome, {name: tuple(float(at) if at else None for at in both) for name, both in found.items()}

    return play


def job(name: str, project: str = "susan", **more: object):
    return {"name": name, "project": project, "gpus": 2, "duration": 1000, **more}


def test_a_span_cuts_off_what_runs_beyond_it(played):
    outcome, jobs = played(job("a"), job("b", duration=9000), span=[0, 4000])
    assert jobs == {"a": (0, 1000), "b": (0, None)}
    assert outcome["utilization"] == (2 * 1000 + 2 * 4000) / (4 * 4000)


def test_a_job_goes_on_with_what_it_had_worked_before(played):
    _, jobs = played(job("a", worked=600, started=0, placed=["dgx"]), job("b", worked=100), span=[700, 4000])
    assert jobs["a"] == (0, 1100)
    assert jobs["b"] == (700, 1600)


def test_quotas_change_when_they_did(played):
    _, jobs = played(
        job("s", gpus=4, duration=5000),
        job("j", "joe", gpus=4, submitted=100, duration=100),
        changes=[{"at": 1000, "quota": {"joe": 4, "susan": 0}}],
    )
    assert jobs["j"] == (1000, 1100)


def test_a_drained_node_takes_nothing_new_and_an_emptied_one_loses_its_jobs(played):
    outcome, jobs = played(
        job("a"),
        job("b", submitted=600),
        changes=[{"at": 500, "available": {"dgx": False}}, {"at": 2000, "available": {"dgx": True}}],
    )
    assert jobs == {"a": (0, 1000), "b": (2000, 3000)}
    assert outcome["pauses"] == 0
    outcome, jobs = played(
        job("a"),
        changes=[
            {"at": 500, "available": {"dgx": False}, "empties": ["dgx"]},
            {"at": 2000, "available": {"dgx": True}},
        ],
    )
    assert jobs == {"a": (0, 2500)}
    assert outcome["pauses"] == 1


def test_a_node_that_goes_takes_its_gpus_with_it(played):
    outcome, jobs = played(
        job("a", duration=3000),
        nodes=[{"name": "dgx", "gpus": 4}, {"name": "late", "gpus": 0}],
        changes=[{"at": 1000, "gpus": {"dgx": 0}}, {"at": 2000, "gpus": {"late": 4}}],
        span=[0, 4000],
    )
    assert jobs == {"a": (0, 4000)}
    assert outcome["utilization"] == 2 * 3000 / (4 * 1000 + 4 * 2000)


def test_gpus_that_nobody_gets_are_left_out(played):
    _, jobs = played(
        job("a"), job("b", "joe"), changes=[{"at": 0, "taken": {"dgx": [0]}}, {"at": 1500, "taken": {"dgx": []}}]
    )
    starts = sorted(start for start, _ in jobs.values())
    assert starts == [0, 1000]


def test_a_job_does_not_run_while_it_is_away(played):
    outcome, jobs = played(job("a", away=[[200, 700]]), job("b", away=[[0, 50], [100, 300]], submitted=0))
    assert jobs == {"a": (0, 1500), "b": (50, 1250)}
    assert outcome["pauses"] == 2


def test_a_cancelled_job_ends_then_and_one_that_ended_before_is_not_cancelled(played):
    _, jobs = played(job("a", cancelled=300), job("b", cancelled=2000), job("c", "joe", gpus=4, cancelled=100))
    assert jobs == {"a": (0, 300), "b": (0, 1000), "c": (None, 100)}


def test_a_pause_costs_what_the_job_had_not_saved(played):
    for own, end in (({}, 1500), ({"saves": False}, 1700), ({"checkpoint_every": 150}, 1550)):
        _, jobs = played(job("a", away=[[200, 700]], **own))
        assert jobs["a"] == (0, end), own


def test_settings_of_the_scenario_count_unless_an_option_says_otherwise(written, scenario, simulated):
    pool = scenario(
        job("s", gpus=4, duration=3000),
        job("j", "joe", submitted=100, duration=500),
        nodes=[{"name": "dgx", "gpus": 4}],
        projects=[{"name": "susan", "quota": 2}, {"name": "joe", "quota": 2}],
    )
    file = written({**pool, "settings": {"min_runtime": 1000, "restart_cost": 60}})
    assert simulated(file)["projects"]["joe"]["mean_queue_s"] == 900
    assert simulated(file, "--min-runtime", 300)["projects"]["joe"]["mean_queue_s"] == 200
    assert simulated(file)["lost_gpu_hours"] > simulated(file, "--restart-cost", 0)["lost_gpu_hours"]


@pytest.mark.parametrize(
    ("past", "message"),
    [
        ({"span": [10, 5]}, "span: expected an end that is not before 10, got 5"),
        ({"changes": [{"at": 0, "gpus": {"no": 1}}]}, "changes[0].gpus: no node “no” in the scenario"),
        ({"changes": [{"at": 0, "quota": {"no": 1}}]}, "changes[0].quota: no project “no” in the scenario"),
        ({"changes": [{"at": 0, "quote": {}}]}, "changes[0].quote: unknown key"),
        ({"changes": [{"at": 0, "quota": {"joe": {"t4": 1}}}]}, "changes[0].quota.joe: no node has GPUs of type"),
    ],
)
def test_a_past_that_cannot_have_been_is_refused(written, scenario, run_simulate, past, message):
    pool = scenario(nodes=[{"name": "dgx", "gpus": 4}], projects=[{"name": "joe"}])
    done = run_simulate(written({**pool, **past}))
    assert done.exit_code == 2
    assert message in done.stderr
