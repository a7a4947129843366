"""A disk without room: the checkpoint before stays, the training continues and saves again when there is room."""

from __future__ import annotations

import errno
import json
import os
import pickle
import re
import resource
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jobs.payloads import payload_of
from nbformat.v4 import new_code_cell, new_notebook
from patience import PATIENCE_S

from springtide.scheduler.executors.supervisor.error_line import error_line
from springtide.training import CheckpointError, Job
from springtide.training import job as training_job
from springtide.training.checkpoint import Checkpoints, NoRoomError

EPOCHS = """
import os, pathlib, sys, time
from springtide.training import current_job
job = current_job(keep=2)
room = pathlib.Path("room")
def save(directory):
    (directory / "model").write_bytes(os.urandom(int(sys.argv[1])))
for epoch in job.epochs(6, save=save, load=lambda directory: None, every=3):
    job.report(step=epoch + 1, of=6)
    pathlib.Path("reached").write_text(str(epoch + 1))
    while epoch == 3 and not room.exists():
        time.sleep(0.01)
print("trained")
"""


def steps(root: Path) -> list[float | None]:
    found = Checkpoints(root).latest()
    return [] if found is None else [found.step]


def full(_directory: Path) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fill(path: Path, but: int = 0) -> None:
    """Write a file that leaves no room on its disk, except for some bytes."""
    disk = os.statvfs(path.parent)
    path.write_bytes(bytes(disk.f_bavail * disk.f_frsize - but))


@pytest.fixture
def tmpfs(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=True)
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.root
def test_a_training_outlives_a_full_disk(place: Any, tmpfs: Path) -> None:
    for name in ("checkpoints", "output"):
        (tmpfs / name).mkdir()
    filler, reports = tmpfs / "filler", place.root / "reports.jsonl"
    (place.root / "train.py").write_text(EPOCHS)
    filler.write_bytes(bytes(900_000))
    process = place.start("train.py", "200000", SPRINGTIDE_CHECKPOINT_DIR=str(tmpfs / "checkpoints"))
    reached = place.root / "reached"
    place.until(lambda: reached.exists() and reached.read_text() == "4", "epoch 4")
    assert steps(tmpfs / "checkpoints") == []
    assert [line["step"] for line in place.reports() if line.get("unsaved")] == [3.0]
    assert reports.exists()
    filler.unlink()
    (place.root / "room").touch()
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (0, "trained\n")
    assert "no room for checkpoint 00000001" in err
    assert err.count("the training continues") == 1
    assert [line["step"] for line in place.reports() if line["saved"]] == [4.0, 6.0]
    assert steps(tmpfs / "checkpoints") == [6.0]
    assert sorted(path.name for path in (tmpfs / "checkpoints").iterdir()) == ["00000001", "00000002"]


@pytest.mark.root
@pytest.mark.parametrize("result", ["{'loss': 0.5}", "b'x' * 5000", "{'loss': float('nan')}", "lambda: None"])
def test_a_result_waits_for_room(place: Any, tmpfs: Path, result: str) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(f"def work():\n    return {result}", namespace)
    (place.root / "payload.pkl").write_bytes(payload_of({"function": namespace["work"], "args": (), "kwargs": {}}))
    output, report, filler = tmpfs / "output", tmpfs / "reports.jsonl", tmpfs / "filler"
    output.mkdir()
    report.write_text(json.dumps({"step": 1}) + "\n")  # its block has room for more lines
    fill(filler)
    process = place.start(
        *("-m", "springtide.training.run", "function", str(place.root / "payload.pkl")),
        SPRINGTIDE_OUTPUT_DIR=str(output),
        SPRINGTIDE_REPORT=str(report),
    )
    assert process.stderr is not None
    assert "no room for result.pkl" in process.stderr.readline()
    assert [path.name for path in output.iterdir()] == []

    def waits() -> list[float]:
        lines = [json.loads(line) for line in report.read_text().splitlines()]
        return [line["waits_for_room"] for line in lines if "waits_for_room" in line]

    place.until(lambda: waits() == [600.0], "the report of the wait")
    filler.unlink()
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert re.fullmatch(r"springtide: There was room for result\.pkl after \d+ s\.\n", err)
    assert waits() == [600.0, 0.0]
    assert type(pickle.loads((output / "result.pkl").read_bytes())) is type(eval(result))
    reported = [json.loads(line).get("milestone") for line in report.read_text().splitlines()]
    assert [each for each in reported if each] == ["called", "returned"]


@pytest.mark.root
def test_the_view_of_a_result_fails_no_job(place: Any, tmpfs: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec("def work():\n    return 'x' * 6000", namespace)
    (place.root / "payload.pkl").write_bytes(payload_of({"function": namespace["work"], "args": (), "kwargs": {}}))
    fill(tmpfs / "filler", but=8192)
    process = place.start(
        *("-m", "springtide.training.run", "function", str(place.root / "payload.pkl")),
        SPRINGTIDE_OUTPUT_DIR=str(tmpfs),
    )
    _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, sorted(path.name for path in tmpfs.iterdir())) == (0, ["filler", "result.pkl"])
    assert err == "springtide: result.json, which shows the result, cannot be written: No space left on device.\n"


@pytest.mark.root
def test_a_result_that_never_finds_room_is_named_without_a_place(place: Any, tmpfs: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec("def work():\n    return 1", namespace)
    (place.root / "payload.pkl").write_bytes(payload_of({"function": namespace["work"], "args": (), "kwargs": {}}))
    fill(tmpfs / "filler")
    (place.root / "short.py").write_text(
        "from springtide.training import files, run\n"
        "files.LAST_PATIENCE = 0.0\n"
        f"run.main(['function', {str(place.root / 'payload.pkl')!r}])\n"
    )
    process = place.start("short.py", SPRINGTIDE_OUTPUT_DIR=str(tmpfs))
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert error_line(err, 1) == f"ResultError: The result cannot be written to {tmpfs}: No space left on device."


@pytest.mark.root
def test_a_notebook_outlives_a_full_disk(place: Any, tmpfs: Path) -> None:
    place.output.mkdir(exist_ok=True)
    filler, go = tmpfs / "filler", place.root / "go"
    cell = f"import pathlib, time\nwhile not pathlib.Path({str(go)!r}).exists(): time.sleep(0.01)\nprint('done')"
    (place.root / "study.ipynb").write_text(
        nbformat.writes(new_notebook(cells=[new_code_cell("1"), new_code_cell(cell)]))
    )
    fill(filler)
    process = place.start(
        *("-m", "springtide.training.run", "notebook", str(place.root / "study.ipynb")),
        SPRINGTIDE_OUTPUT_DIR=str(tmpfs),
    )
    assert process.stderr is not None
    assert "no room for study.ipynb with the outputs so far" in process.stderr.readline()
    go.touch()
    assert "no room for study.ipynb in" in process.stderr.readline()
    filler.unlink()
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert "done" in (tmpfs / "study.ipynb").read_text()
    assert [path.name for path in tmpfs.iterdir()] == ["study.ipynb"]


def test_a_pause_waits_for_room_within_its_grace_period(place: Any) -> None:
    (place.root / "train.py").write_text(
        "import pathlib, time\n"
        "from springtide.training import current_job\n"
        "job = current_job()\n"
        "job.save(b'1' * 1000, step=1)\n"
        "pathlib.Path('ready').touch()\n"
        "while not job.should_pause(): time.sleep(0.01)\n"
        "job.save(b'2' * 1000, step=2)\n"
        "job.exit_for_pause()\n"
    )
    process = place.start("train.py")
    place.until((place.root / "ready").exists, "the first checkpoint")
    soft, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (500, hard))
    place.pause_file.touch()
    assert process.stderr is not None
    assert "no room for checkpoint 00000002" in process.stderr.readline()
    assert steps(place.checkpoints) == [1]
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (soft, hard))
    assert process.wait(PATIENCE_S) == 75
    assert steps(place.checkpoints) == [2]


def test_a_block_on_a_full_disk_leaves_the_checkpoint_before(tmp_path: Path) -> None:
    job = Job({}, tmp_path)
    job.save("good", 1)
    with job.checkpoint(2) as directory:
        full(directory)
    assert job.owes_checkpoint
    assert [path.name for path in tmp_path.iterdir()] == ["00000001"]
    job.save("better", 3)
    assert not job.owes_checkpoint
    assert steps(tmp_path) == [3]


def test_a_full_disk_before_the_block_is_no_failure_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job({}, tmp_path)
    job.save("good", 1)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "mkdir", lambda *_args, **_more: full(tmp_path))
        with job.checkpoint(2) as directory:
            (directory / "model").write_text("weights")
    assert job.owes_checkpoint
    assert steps(tmp_path) == [1]


def test_the_error_of_a_frameworks_writer_counts_when_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job({}, tmp_path)
    with pytest.raises(RuntimeError, match="shapes"), job.checkpoint(1):
        raise RuntimeError("shapes differ")
    disk = os.statvfs_result((4096, 4096, 100, 0, 0, 1, 1, 1, 0, 255))
    with monkeypatch.context() as patched:
        patched.setattr(os, "statvfs", lambda _path: disk)
        with job.checkpoint(1):
            raise RuntimeError("PytorchStreamWriter failed writing file")
    assert job.owes_checkpoint


def test_the_last_checkpoint_of_a_training_is_not_given_up_silently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_job, "LAST_PATIENCE", 0.0)
    job = Job({}, tmp_path)
    with pytest.raises(CheckpointError, match="no room for the last checkpoint"):
        for _ in job.epochs(1, save=full, load=lambda _: None):
            pass


@pytest.mark.parametrize("lacking", [0, 1, 2])
def test_all_processes_give_up_a_checkpoint_that_one_has_no_room_for(tmp_path: Path, lacking: int) -> None:
    outcome: dict[int, str] = {}

    def write(rank: int, work: Callable[[Path], object]) -> None:
        try:
            with Checkpoints(tmp_path, rank=rank, world=3).writing(1, shards=True) as directory:
                work(directory / str(rank))
            outcome[rank] = "saved"
        except NoRoomError:
            outcome[rank] = "no room"

    def all_write(failing: int | None) -> None:
        works = [full if rank == failing else Path.touch for rank in range(3)]
        threads = [threading.Thread(target=write, args=(rank, works[rank])) for rank in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    all_write(lacking)
    assert set(outcome.values()) == {"no room"}
    assert list(tmp_path.iterdir()) == []
    all_write(None)
    assert set(outcome.values()) == {"saved"}
    assert steps(tmp_path) == [1]
