"""What became of jobs, from a terminal: for scripts and CI."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from terminal import Run

from springtide.hub_extension.commands.results import LOOK_EVERY_S

pytestmark = [pytest.mark.xdist_group("hub-command"), pytest.mark.timeout(180)]

LEAVES = """
from springtide.training import current_job
directory = current_job().output_directory
(directory / "plots").mkdir()
(directory / "plots/loss.csv").write_text("1.0")
(directory / "model.pt").write_text("weights")
"""


def test_a_script_waits_for_a_job_and_saves_what_it_left(run: Run, directory: Path) -> None:
    (directory / "leaves.py").write_text(LEAVES)
    job = run("submit", "--json", "python", "leaves.py").json["id"]
    waited = run("wait", job)
    assert (waited.code, "succeeded" in waited.out) == (0, True), waited
    assert {file["name"] for file in run("outputs", job, "--json").json["items"]} == {"model.pt", "plots/loss.csv"}
    (directory / "results").mkdir()
    done = run("download", job, "--to", "results")
    assert done.code == 0, done.err
    assert (directory / "results/plots/loss.csv").read_text() == "1.0"
    assert (directory / "results/model.pt").read_text() == "weights"
    refused = run("download", job, "../model.pt")
    assert (refused.code, "no file of a job" in refused.err) == (2, True), refused


def test_a_wait_tells_by_its_exit_code_how_jobs_ended(run: Run) -> None:
    failing = run("submit", "--json", "--", "sh", "-c", "exit 3").json["id"]
    sleeping = run("submit", "--json", "--", "sleep", "600").json["id"]
    assert run("wait", failing).code == 1
    over = run("wait", sleeping, "--timeout", "0.1s")
    assert (over.code, over.err) == (124, "After 0.1 s not all have ended. They go on.\n")
    assert run("cancel", sleeping).code == 0
    assert run("wait", failing, sleeping).code == 1
    assert run("wait", sleeping, "--timeout", "soon").code == 2


def test_a_wait_hears_of_the_end_at_once(run: Run) -> None:
    job = run("submit", "--json", "--", "sleep", "4").json["id"]
    waited = run("wait", job, "--json")
    assert waited.code == 0, waited
    assert time.time() - waited.json["ended"] < LOOK_EVERY_S / 2
