"""Traces and quota tables: what is wrong with one is said with file, line and column."""

from __future__ import annotations

import csv

import pytest

TRACE = "submit_s,project,gpus,duration_s\n0,a,1,10\n5,b,12,20\n"
QUOTAS = "project,quota\na,4\nb,4\n"

BAD_TRACES = {
    "no header": ("0,a,1,10\n", "line 1, column header", "submit_s,project,gpus,duration_s"),
    "empty": ("", "line 1, column header", "submit_s,project,gpus,duration_s"),
    "cell missing": (TRACE + "6,a,1\n", "line 4, column row", "expected 4 cells, got 3"),
    "text as time": (TRACE + "soon,a,1,10\n", "line 4, column submit_s", "got “soon”"),
    "NaN duration": (TRACE + "6,a,1,nan\n", "line 4, column duration_s", "got “nan”"),
    "infinite time": (TRACE + "inf,a,1,1\n", "line 4, column submit_s", "got “inf”"),
    "negative duration": (TRACE + "6,a,1,-1\n", "line 4, column duration_s", "0 or more"),
    "no GPUs": (TRACE + "6,a,0,1\n", "line 4, column gpus", "1 to 1000000, got “0”"),
    "half a GPU": (TRACE + "6,a,0.5,1\n", "line 4, column gpus", "whole number"),
    "absurd GPUs": (TRACE + "6,a,99999999999,1\n", "line 4, column gpus", "whole number"),
    "no project": (TRACE + "6,,1,1\n", "line 4, column project", "expected a name"),
    "project without quota": (TRACE + "6,c,1,1\n", "line 4, column project", "“c” has no quota"),
    "unknown column": ("submit_s,project,gpus,duration_s,size\n", "line 1, column header", "submit_s,project"),
    "unknown GPU type": (
        "submit_s,project,gpus,duration_s,gpu_types\n0,a,1,10,t4\n",
        "line 2, column gpu_types",
        "no node has GPUs of type “t4”",
    ),
    "open quote": (TRACE + '6,"a,1,1\n', "line 4", "expected comma-separated cells"),
}


@pytest.mark.parametrize(("text", "where", "expected"), BAD_TRACES.values(), ids=BAD_TRACES.keys())
def test_a_bad_trace_is_named_with_line_and_column(text, where, expected, written, run_simulate):
    trace, quotas = written(text, "jobs.csv"), written(QUOTAS, "quotas.csv")

    result = run_simulate("--trace", trace, "--quotas", quotas, "--nodes", "1x8")

    assert result.exit_code == 2
    assert f"{trace}: {where}: " in result.stderr
    assert expected in result.stderr
    assert "Traceback" not in result.stderr


BAD_QUOTAS = {
    "listed twice": (QUOTAS + "a,1\n", "line 4, column project", "listed twice"),
    "negative": ("project,quota\na,-1\n", "line 2, column quota", "0 to 1000000, got “-1”"),
    "unknown column": ("project,quota,weight\na,1,1\n", "line 1, column header", "project,quota"),
}


@pytest.mark.parametrize(("text", "where", "expected"), BAD_QUOTAS.values(), ids=BAD_QUOTAS.keys())
def test_a_bad_quota_table_is_named_with_line_and_column(text, where, expected, written, run_simulate):
    trace, quotas = written(TRACE, "jobs.csv"), written(text, "quotas.csv")

    result = run_simulate("--trace", trace, "--quotas", quotas, "--nodes", "1x8")

    assert result.exit_code == 2
    assert f"{quotas}: {where}: " in result.stderr
    assert expected in result.stderr


@pytest.mark.parametrize("nodes", ["8", "x8", "0x8", "2x0", "2x-8", "2x8,", "1e3x8", "9999999x1"])
def test_bad_nodes_are_refused_with_an_example(nodes, written, run_simulate):
    result = run_simulate(
        "--trace", written(TRACE, "jobs.csv"), "--quotas", written(QUOTAS, "quotas.csv"), "--nodes", nodes
    )

    assert result.exit_code == 2
    assert "such as 88x8" in result.stderr


@pytest.mark.parametrize("option", ["--restart-cost", "--checkpoint-every", "--min-runtime"])
@pytest.mark.parametrize("value", ["-1", "nan", "inf", "soon"])
def test_bad_seconds_are_refused(option, value, written, run_simulate):
    result = run_simulate(option, value, written({"nodes": [], "projects": []}))

    assert result.exit_code == 2
    assert "expected seconds" in result.stderr


@pytest.mark.parametrize("start", ["=", "+", "-", "@"])
def test_no_name_in_a_table_of_jobs_is_a_formula(start, written, simulated, tmp_path):
    name = f"{start}1+1"
    trace = written(TRACE.replace(",a,", f",{name},"), "jobs.csv")
    quotas = written(QUOTAS.replace("a,", f"{name},"), "quotas.csv")
    simulated("--trace", trace, "--quotas", quotas, "--nodes", "2x8", "--jobs-out", tmp_path / "out.csv")
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))

    assert {row["project"] for row in rows} == {f"'{name}", "b"}


def test_a_trace_needs_quotas_and_nodes(written, run_simulate):
    result = run_simulate("--trace", written(TRACE, "jobs.csv"))

    assert result.exit_code == 2
    assert "--quotas" in result.stderr


def test_a_scenario_and_a_trace_exclude_each_other(written, run_simulate):
    result = run_simulate(written({"nodes": [], "projects": []}), "--trace", written(TRACE, "jobs.csv"))

    assert result.exit_code == 2
    assert "got both" in result.stderr


def test_a_job_larger_than_a_node_becomes_several_equal_workers(written, simulated):
    outcome = simulated(
        "--trace", written(TRACE, "jobs.csv"), "--quotas", written(QUOTAS, "quotas.csv"), "--nodes", "2x8"
    )

    assert (outcome["jobs"], outcome["finished"]) == (2, 2)
    assert outcome["gpu_hours"] == pytest.approx((10 + 12 * 20) / 3600, abs=1e-3)


TYPED_TRACE = """submit_s,project,gpus,duration_s,gpu_types
0,a,8,1000,a100
0,b,8,1000,t4 a100
0,a,12,1000,
10,b,8,1000,a100
"""
TYPED_QUOTAS = "project,gpu_type,quota\na,t4,8\nb,a100,8\n"


def test_a_trace_on_two_gpu_types_shares_each_by_itself(written, simulated):
    files = ("--trace", written(TYPED_TRACE, "jobs.csv"), "--quotas", written(TYPED_QUOTAS, "quotas.csv"))
    shared = simulated(*files, "--nodes", "2x8:t4,1x8:a100")
    static = simulated(*files, "--nodes", "2x8:t4,1x8:a100", "--policy", "static")

    assert (shared["jobs"], shared["finished"], shared["breaches"], shared["guarantee_violation_s"]) == (
        4,
        4,
        0,
        0,
    )
    assert (static["left_out"], static["finished"]) == (2, 2)


@pytest.mark.parametrize("table", [QUOTAS, "project,gpu_type,quota\na,h100,4\n"])
def test_quotas_of_a_pool_with_several_types_name_one_of_them(table, written, run_simulate):
    quotas = written(table, "quotas.csv")
    result = run_simulate("--trace", written(TRACE, "jobs.csv"), "--quotas", quotas, "--nodes", "2x8:t4,1x8:a100")

    assert result.exit_code == 2
    assert f"{quotas}: line 2, column gpu_type: expected one of “a100”, “t4”" in result.stderr
