"""What a job left comes back as data: files, metrics, frames of pandas."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from math import isinf
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs
from patience import PATIENCE_S

from springtide.scheduler import wire
from springtide.scheduler.arguments import Argument
from springtide.scheduler.metrics import NotFinite
from springtide.training import current_job
from springtide.widgets.connection import PoolError
from springtide.widgets.errors import DownloadError, NoResultError, OptionError
from springtide.widgets.job import Job
from springtide.widgets.results import Advised, Metrics, Trials, job_rows
from springtide.widgets.shared_pool import Pool

LEAVES = """
from springtide.training import current_job
job = current_job()
for step in range(12):
    job.report(step=step + 1, of=12, loss=1 / (step + 1), gpus=0.5, attempt=7)
(job.output_directory / "plots").mkdir()
(job.output_directory / "plots/loss.csv").write_text("step,loss\\n1,1.0\\n")
(job.output_directory / "<b>.txt").write_bytes(bytes(3000))
"""


@pytest.fixture
def left(pool: Pool, workdir: Path) -> Job:
    (workdir / "leaves.py").write_text(LEAVES)
    return pool.submit("python leaves.py", name="leaves").wait(PATIENCE_S, quiet=True)


def test_files_of_a_job_are_listed_and_saved(left: Job, tmp_path: Path) -> None:
    files = left.outputs()
    assert {file.name: file.size for file in files} == {"plots/loss.csv": 16, "<b>.txt": 3000}
    assert "2.9 KiB" in repr(files)
    assert "&lt;b&gt;.txt" in files._repr_html_()
    here = tmp_path / "saved"
    here.mkdir()
    saved = left.download("plots/loss.csv", here)
    assert (saved, saved.read_text()) == (here / "loss.csv", "step,loss\n1,1.0\n")
    (here / "old.txt").write_text("old")
    assert left.download("<b>.txt", here / "old.txt").stat().st_size == 3000
    assert sorted(path.name for path in here.iterdir()) == ["loss.csv", "old.txt"]


def test_a_name_that_is_listed_in_quotes_is_understood(pool: Pool, workdir: Path) -> None:
    (workdir / "odd.py").write_text(
        "from springtide.training import current_job\n"
        "folder = current_job().output_directory / 'a\\tb'\n"
        "folder.mkdir()\n"
        "(folder / \"it's\").write_text('odd')\n"
    )
    job = pool.submit("python odd.py", name="odd").wait(PATIENCE_S, quiet=True)
    listed = r"$'a\tb/it\'s'"
    assert listed in repr(job.outputs())
    for name in (listed, job.outputs()[0].name):
        assert job.output(name) == b"odd"
        assert job.download(name, workdir / "saved").read_text() == "odd"
    assert (job.download(r"$'a\tb'", workdir) / "it's").read_text() == "odd"
    with pytest.raises(NoResultError, match="has written no output"):
        job.output(r"$'b\ta'")


def test_the_files_of_a_folder_are_saved(left: Job, tmp_path: Path) -> None:
    here = tmp_path / "saved"
    here.mkdir()
    assert left.download("plots", here) == here / "plots"
    assert left.download("plots/", tmp_path / "mine") == tmp_path / "mine"
    for folder in (here / "plots", tmp_path / "mine"):
        assert (folder / "loss.csv").read_text() == "step,loss\n1,1.0\n"
    with pytest.raises(NoResultError, match="has written no output “plo”"):
        left.download("plo", here)
    for odd in (".", "plots/..", "../x"):
        with pytest.raises((NoResultError, PoolError), match="is no part of an id or of a name"):
            left.download(odd, here)


def test_an_ended_job_is_deleted_for_good(pool: Pool, left: Job) -> None:
    other = pool.submit("true").wait(PATIENCE_S, quiet=True)
    left.delete()
    with pytest.raises(PoolError, match="was deleted by susan"):
        left.outputs()
    assert [job.id for job in pool.jobs(limit=5) if job.id in {left.id, other.id}] == [other.id]
    waits = pool.submit("sleep 600")
    with pytest.raises(PoolError, match="Cancel it first"):
        waits.delete()
    waits.cancel()


def test_a_name_with_a_slash_at_its_end_is_a_directory_as_for_cp(left: Job, tmp_path: Path) -> None:
    new = f"{tmp_path}/new/deep/"
    assert left.download("plots/loss.csv", new) == tmp_path / "new/deep/loss.csv"
    assert left.download("plots", f"{tmp_path}/folders/") == tmp_path / "folders/plots"
    assert (tmp_path / "folders/plots/loss.csv").read_text() == "step,loss\n1,1.0\n"
    assert left.download("plots/loss.csv", tmp_path / "file").read_text() == "step,loss\n1,1.0\n"
    for name in ("model.pt", "plo"):
        with pytest.raises(NoResultError):
            left.download(name, f"{tmp_path}/never/")
    with pytest.raises(DownloadError, match="Name another directory or file"):
        left.download("plots/loss.csv", f"{tmp_path}/file/")
    assert not (tmp_path / "never").exists()


def test_checkpoints_are_no_rows_of_metrics(pool: Pool, workdir: Path) -> None:
    def train() -> None:
        job = current_job()
        for step in range(3):
            job.report(step=step + 1, loss=1.0)
            job.save(step, step=step + 1)

    metrics = pool.submit(train).wait(PATIENCE_S, quiet=True).metrics()
    assert [(row["step"], row["loss"]) for row in metrics] == [(1, 1.0), (2, 1.0), (3, 1.0)]


def test_a_file_that_cannot_be_saved_is_named_with_the_way_out(left: Job, tmp_path: Path) -> None:
    with pytest.raises(NoResultError, match=r"has written no output “model\.pt”"):
        left.download("model.pt", tmp_path)
    with pytest.raises(DownloadError, match="Name another directory or file"):
        left.download("plots/loss.csv", tmp_path / "not there" / "x.csv")
    assert list(tmp_path.glob(".*part")) == []


def test_metrics_are_rows_and_a_frame(left: Job) -> None:
    metrics = left.metrics()
    assert [(row["step"], row["loss"]) for row in metrics[:2]] == [(1, 1.0), (2, 0.5)]
    assert repr(metrics).endswith("The last 10 of 12 reports.")
    frame = metrics.to_frame()
    assert list(frame.columns) == ["attempt", "at", "step", "loss", "gpus", "reported.attempt"]
    assert frame["loss"].iloc[-1] == pytest.approx(1 / 12)
    assert frame["at"].iloc[0].timestamp() == pytest.approx(metrics[0]["at"], abs=1e-5)


def test_jobs_are_searched_and_become_a_frame(pool: Pool, left: Job) -> None:
    frame = pool.jobs(search=left.id).to_frame()
    assert list(frame["name"]) == ["leaves"]
    assert (frame["state"].iloc[0], frame["step"].iloc[0]) == ("succeeded", 12)
    assert pool.jobs(search=left.id, since=datetime.now(UTC)) == []
    assert pool.jobs(search=left.id, since=time.time() - 3600) == [left]


def test_times_of_all_frames_are_times_and_missing_ones_are_not_a_time(pool: Pool, left: Job) -> None:
    alike = pool.compare([left, left.rerun().wait(PATIENCE_S, quiet=True)])
    times = {
        "jobs": (pool.jobs(search=left.id).to_frame(), ["submitted", "started", "ended"]),
        "files": (left.outputs().to_frame(), ["written"]),
        "metrics": (left.metrics().to_frame(), ["at"]),
        "comparison": (alike.to_frame(), ["submitted", "started", "ended"]),
        "reports": (alike.metrics(), ["at"]),
        "trials": (
            Trials([wire.TrialRow(trial=0), wire.TrialRow(trial=1)], "loss").to_frame(),
            ["started", "ended"],
        ),
    }
    for name, (frame, columns) in times.items():
        assert {str(frame[column].dtype) for column in columns} == {"datetime64[ns, UTC]"}, name
    assert times["trials"][0]["ended"].isna().all()
    jobs = times["jobs"][0]
    assert (jobs["ended"] - jobs["submitted"]).iloc[0].total_seconds() > 0


def test_the_column_of_a_trial_is_its_value_and_before_that_what_it_reported_last() -> None:
    rows = [
        wire.TrialRow(trial=0, value=0.5, values={"loss": 0.75, "acc": 0.9}),
        wire.TrialRow(trial=1, values={"loss": 0.25}),
    ]
    assert Trials(rows, "loss").to_frame()["loss"].tolist() == [0.5, 0.25]
    assert Trials(rows[:1], "").to_frame()["value"].tolist() == [0.5]
    assert Trials([wire.TrialRow(trial=0, value=3.0, step=7)], "step").to_frame()["reported.step"].tolist() == [
        3.0
    ]


def test_a_value_that_is_called_like_an_argument_of_another_job_has_one_column_in_all_rows(left: Job) -> None:
    first = left.info
    argument, value = {"rate": Argument(value=0.7)}, {"rate": 9.0, "reported.rate": 1.0}
    jobs = [
        structs.replace(first, arguments=of, progress=structs.replace(first.progress, values=reported))
        for of, reported in ((argument, {}), ({}, {"rate": 9.0}), (argument, {"rate": 8.0}), ({}, value))
    ]
    rows = job_rows(jobs)
    assert [row.get("rate") for row in rows] == [0.7, None, 0.7, None]
    assert [row.get("reported.rate") for row in rows] == [None, 9.0, 8.0, 1.0]
    assert rows[3]["reported.reported.rate"] == 9.0, "no value is lost"


def test_reported_values_that_are_called_like_columns_have_columns_of_their_own(pool: Pool, left: Job) -> None:
    nothing = pool.jobs(search="no such job").to_frame()
    assert (len(nothing), str(nothing["submitted"].dtype)) == (0, "datetime64[ns, UTC]")
    last = pool.jobs(search=left.id).to_frame().iloc[0]
    assert (last["gpus"], last["reported.gpus"]) == (1, 0.5)
    assert (last["attempts"], last["attempt"]) == (1, 7)
    report = left.metrics()[-1]
    assert (report["attempt"], report["reported.attempt"], report["gpus"]) == (1, 7, 0.5)
    alike = pool.compare([left, again := left.rerun().wait(PATIENCE_S, quiet=True)])
    assert [f"leaves ({job.id})" in repr(alike) for job in (left, again)] == [True, True]
    both = alike.metrics()
    assert (both["attempt"].max(), both["reported.attempt"].min()) == (1, 7)


def test_without_pandas_only_a_frame_is_missing() -> None:
    code = (
        "import sys; sys.modules['pandas'] = None\n"
        "from springtide.widgets.results import Metrics\n"
        "print(Metrics([]))\n"
        "try: Metrics([]).to_frame()\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == [
        "The job has reported nothing. A training does so with job.report(step=…, of=…, loss=…).",
        "MissingPackageError A frame needs pandas, which is not installed here: %pip install pandas",
    ]


def test_jobs_are_compared_side_by_side(pool: Pool, left: Job, workdir: Path) -> None:
    other = pool.submit("python leaves.py --again", name="<i>other</i>", gpus=2).wait(PATIENCE_S, quiet=True)
    found = pool.compare([left, other.id])
    text = repr(found)
    assert re.search(r"gpus +1 +2", text)
    assert "lines" not in text
    assert re.search(r"loss +0.0833333 +0.0833333", text)
    assert re.search(r"best loss +0.0833333 +0.0833333", text)
    assert "&lt;i&gt;other&lt;/i&gt;" in found._repr_html_()
    frame = found.to_frame()
    assert frame["option.gpus"].tolist() == ["1", "2"]
    reports = found.metrics()
    assert reports.groupby("job")["loss"].count().tolist() == [12, 12]
    with pytest.raises(PoolError, match="1 job cannot be compared"):
        pool.compare([left])
    with pytest.raises(OptionError, match="No job is given"):
        pool.compare(pool.jobs(tag="never"))


ROW: dict[str, Any] = {
    "gpu_type": "t4",
    "workers": 2,
    "gpus": 1,
    "level": "node",
    "nodes": 1,
    "placed": "on one node",
    "runs": 3,
}
ADVICE = wire.Advice(
    reasons=[],
    text="On one node jobs like it were 1.7 times as fast as on 2 nodes (3 runs against 4).",
    placements=[
        wire.MeasuredPlacement(**ROW, steps_per_second=12.345),
        wire.MeasuredPlacement(**{**ROW, "placed": "on 2 nodes", "nodes": 2, "runs": 4}, steps_per_second=0.25),
        wire.MeasuredPlacement(**{**ROW, "workers": 1}, run_seconds=7500.0),
    ],
)


def test_advice_is_sentences_and_a_table() -> None:
    told = Advised(ADVICE)
    text, *lines = repr(told).splitlines()
    assert text == ADVICE.text
    assert [re.split(r" {2,}", line) for line in lines] == [
        ["GPUs", "type", "placed", "speed", "runs"],
        ["2 x 1", "t4", "on one node", "12.3 steps/s", "3"],
        ["2 x 1", "t4", "on 2 nodes", "4 s for a step", "4"],
        ["1", "t4", "on one node", "2 h 5 min for a run", "3"],
    ]
    assert told._repr_html_().startswith(f"<p>{ADVICE.text}</p><table>")
    assert list(told.to_frame()["nodes"]) == [1, 2, 1]


def test_advice_on_what_is_alike_says_so() -> None:
    alike = msgspec.structs.replace(ADVICE, text="")
    assert repr(Advised(alike)).startswith("No other GPUs are known to be notably faster")


def test_metrics_have_last_and_best_values_and_those_at_a_step() -> None:
    values = [{"val_loss": 3.0, "acc": 0.1}, {"val_loss": 1.0, "acc": 0.3}, {"val_loss": 2.0, "acc": 0.2}]
    found = Metrics(
        wire.Point(seq=n, attempt=1, at=n, step=10.0 * n, values=each) for n, each in enumerate(values)
    )
    assert found.names == ["val_loss", "acc"]
    assert (found.last("val_loss"), found.best("val_loss"), found.best("acc")) == (2.0, (1.0, 10.0), (0.3, 10.0))
    assert found.best("val_loss", "max").value == 3.0
    assert (found.at(15, "acc"), found.at(-1, "acc")) == (0.3, None)
    assert found.series("acc") == [(0.0, 0.1), (10.0, 0.3), (20.0, 0.2)]
    assert "are kept" not in repr(found)
    thinned = Metrics(
        [
            *(wire.Point(seq=n, attempt=1, at=n, step=n) for n in range(3)),
            wire.Point(seq=3, attempt=1, at=3, step=999, values={"a\n\u202eb": 1.0}, left_out=996),
        ]
    )
    assert thinned.left_out == 996
    assert repr(thinned).splitlines()[0].split() == ["attempt", "step", "a", "b"]
    said = "The job made 1,000 reports in all; 4 are kept, with the last and the best of each metric."
    assert repr(thinned).endswith(said)
    assert thinned._repr_html_().endswith(said)
    assert "alone" not in repr(thinned)
    many = Metrics([wire.Point(seq=1, attempt=1, at=1, values={f"m{n}": 1.0 for n in range(1025)})])
    assert repr(many).endswith("the best value of the first 1,024 metrics alone, without m1024.")
    diverged = Metrics(
        wire.Point(seq=n, attempt=1, at=n, step=n, values={"loss": each, "lost": NotFinite.NAN})
        for n, each in enumerate([0.5, NotFinite.NAN, NotFinite.MINUS_INFINITY, 0.7])
    )
    assert (diverged.best("loss"), diverged.last("loss")) == ((0.5, 0), 0.7)
    assert [str(value) for _, value in diverged.series("loss")] == ["0.5", "nan", "-inf", "0.7"]
    assert isinf(diverged.at(2, "loss"))
    assert list(diverged.to_frame()["loss"].isna()) == [False, True, False, False]
    assert diverged.to_frame()["loss"].dtype == float
    with pytest.raises(NoResultError, match=r"No value of “lost” that the job has reported is finite\."):
        diverged.best("lost")
    with pytest.raises(NoResultError, match=r"no “lss”. It has reported val_loss and acc\."):
        found.last("lss")
    with pytest.raises(OptionError, match="goal is “least”; expected “min” or “max”"):
        found.best("acc", "least")
