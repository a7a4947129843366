"""`springtide runs export`; tests/frameworks/test_run_export.py asks the real MLflow and W&B."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path

import pytest
from programs.terminal import Run

pytestmark = pytest.mark.xdist_group("hub-command")


@pytest.fixture
def job(run: Run) -> str:
    sent = run("submit", "--gpus", "0", "--tag", "exported", "--json", "--", "true", "--lr", "0.1")
    assert run("wait", sent.json["id"]).code == 0
    return str(sent.json["id"])


def test_jobs_that_are_named_or_chosen_are_a_table(run: Run, job: str, directory: Path) -> None:
    [named] = csv.DictReader(io.StringIO(run("runs", "export", job, "--to", "csv").out))
    assert (named["id"], named["state"]) == (job, "succeeded")
    done = run("runs", "export", "--tag", "exported", "--limit", "1", "--to", "csv", "--into", "runs.csv")
    assert (done.code, done.out) == (0, "")
    [chosen] = csv.DictReader((directory / "runs.csv").open())
    assert chosen["id"] == job


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--to", "csv"], 2, "Name the jobs, or choose them by --mine, --project, --tag, --where"),
        (["job-1", "--mine", "--to", "csv"], 2, "Give either jobs, here “job-1”, or options that choose them"),
        (["--mine"], 2, "Missing option '--to'"),
        (["--mine", "--to", "csv", "--json"], 2, "--json is for MLflow and W&B"),
        (["--project", "no", "--to", "csv"], 2, "There is no project “no”."),
        (
            ["--mine", "--to", "csv", "--into", "no/such/folder"],
            1,
            "cannot be written: No such file or directory.",
        ),
        (
            ["--mine", "--to", "mlflow"],
            2,
            "Name the MLflow server: --into https://mlflow.example.org:5000, or set",
        ),
        (["--mine", "--to", "mlflow", "--into", "./mlruns"], 2, "mlflow server --backend-store-uri"),
        (["--mine", "--to", "wandb"], 1, "needs wandb, which is not installed: pip install 'springtide[wandb]'"),
        (["no-such-job", "--to", "csv"], 1, "no job"),
    ],
)
def test_what_cannot_be_exported_is_said_in_a_sentence(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: list[str], code: int, said: str
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.delitem(sys.modules, "springtide.hub_extension.tracking.wandb", raising=False)
    done = run("runs", "export", *words)
    assert (done.code, said in " ".join(done.err.split())) == (code, True), done.err


def test_a_job_that_is_gone_does_not_keep_the_others(run: Run) -> None:
    done = run("runs", "export", "gone-1", "gone-2", "--to", "mlflow", "--into", "http://127.0.0.1:9")
    assert done.code == 1
    first, second, end = done.err.splitlines()
    assert first == "left out: There is no job “gone-1” that you may see."
    assert second == "left out: There is no job “gone-2” that you may see."
    assert end == "Error: 2 of 2 jobs left out."


def test_a_password_in_an_address_is_in_no_message(run: Run) -> None:
    refused = run("runs", "export", "--mine", "--to", "mlflow", "--into", "ftp://susan:hunter2@example.org")
    assert (refused.code, "hunter2" in refused.out + refused.err) == (2, False)
