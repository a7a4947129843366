"""What users of other schedulers reported, as small scenarios: our promises say how each has to end."""

from __future__ import annotations

import pytest
from judges.command import plan, simulate
from judges.report import Report, ReportOverTime
from judges.rest import breaches
from public_reports import kai, kueue, others, volcano, yunikorn

ALL = [each for module in (kueue, kai, volcano, yunikorn, others) for each in module.REPORTS]


def named(kind):
    return [
        pytest.param(each, id=each.source.removeprefix("https://github.com/"))
        for each in ALL
        if isinstance(each, kind)
    ]


@pytest.mark.parametrize("report", named(Report))
def test_a_pool_as_in_a_report_comes_to_rest_as_promised(report):
    shown = plan(report.scenario)
    jobs, types = shown["jobs"], {node["name"]: node.get("gpu_type") for node in report.scenario["nodes"]}

    assert shown["stable"]
    assert {name: jobs[name]["running"] for name in report.runs} == report.runs
    assert [name for name in (*report.waits, *report.impossible) if jobs[name]["running"]] == []
    assert {name: _held(report, jobs, name) for name in report.held} == report.held
    assert {some: sum(jobs[name]["running"] > 0 for name in some) for some in report.some} == report.some
    assert {name: {types[node] for node in jobs[name]["nodes"]} for name in report.on} == {
        name: {kind} for name, kind in report.on.items()
    }
    assert [name for name, job in jobs.items() if job.get("impossible")] == list(report.impossible)
    assert all(change in jobs[name]["starts_if"] for name, change in report.starts_if.items())
    assert breaches(report.scenario, shown) == []


@pytest.mark.parametrize("report", named(ReportOverTime))
def test_a_history_as_in_a_report_keeps_what_is_promised(report):
    result, jobs = simulate(report.scenario, *report.options)

    for name, (earliest, latest) in report.starts.items():
        assert earliest <= jobs[name]["start_s"] <= latest, name
    assert {name: jobs[name]["pauses"] for name in report.pauses} == report.pauses
    assert result["finished"] == len(report.scenario["jobs"])
    assert result["guarantee_violation_s"] == 0


def test_each_report_is_cited_once():
    sources = [each.source for each in ALL]

    assert len(set(sources)) == len(sources) >= 60


def _held(report, jobs, project):
    """Return the GPUs of a project with all below it."""
    parents = {each["name"]: each.get("parent") for each in report.scenario["projects"]}

    def belongs(name):
        return name == project or (parents[name] is not None and belongs(parents[name]))

    return sum(
        jobs[job["name"]]["running"] * job["gpus"] for job in report.scenario["jobs"] if belongs(job["project"])
    )
