from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from springtide.training import CheckpointError
from springtide.training.checkpoint import Checkpoints, Keep, kept, rule_of
from springtide.training.job import Job


def test_a_checkpoint_is_what_was_written(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, attempt=2)
    assert checkpoints.latest() is None
    with checkpoints.writing(41) as directory:
        (directory / "deep").mkdir()
        (directory / "deep" / "model.bin").write_bytes(b"weights")
        assert checkpoints.latest() is None
    found = checkpoints.latest()
    assert found is not None
    assert (found.step, found.attempt, found.state) == (41, 2, None)
    assert (found.path / "deep" / "model.bin").read_bytes() == b"weights"


@pytest.mark.parametrize("state", [{"epoch": 3, "weights": [0.5]}, b"\0raw", "text", None, 7])
def test_one_value_comes_back_as_it_was(tmp_path: Path, state: object) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(state, 1)
    found = checkpoints.latest()
    assert found is not None
    assert found.state == state


class Defined:
    """A class that another program does not have."""


def test_a_checkpoint_with_a_class_that_is_not_defined_here_says_so(tmp_path: Path, monkeypatch) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(Defined(), 1)
    found = checkpoints.latest()
    assert found is not None
    monkeypatch.delattr(sys.modules[__name__], "Defined")
    with pytest.raises(AttributeError, match=r"00000001 has an object of a class .* not defined here: .*Defined"):
        _ = found.state


def test_a_checkpoint_that_fails_leaves_the_one_before(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save("good", 1)
    with contextlib.suppress(ZeroDivisionError), checkpoints.writing(2) as directory:
        (directory / "half").write_text("…")
        raise ZeroDivisionError
    found = checkpoints.latest()
    assert found is not None
    assert found.step == 1
    assert [path.name for path in tmp_path.iterdir()] == ["00000001"]


@pytest.mark.parametrize("harm", ["cut", "changed", "missing", "no manifest", "torn manifest", "foreign manifest"])
def test_a_torn_checkpoint_falls_back_to_the_one_before(tmp_path: Path, harm: str) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save({"n": 1}, 1)
    checkpoints.save({"n": 2}, 2)
    newest = tmp_path / "00000002"
    state, manifest = newest / "state.pkl", newest / "manifest.json"
    content = state.read_bytes()
    if harm == "cut":
        state.write_bytes(content[:-1])
    elif harm == "changed":
        state.write_bytes(content[:-1] + b"!")
    elif harm == "missing":
        state.unlink()
    elif harm == "no manifest":
        manifest.unlink()
    elif harm == "torn manifest":
        manifest.write_text(manifest.read_text()[:20])
    else:
        manifest.write_text("[1, 2]")
    found = checkpoints.latest()
    assert found is not None
    assert found.state == {"n": 1}
    checkpoints.save({"n": 3}, 3)
    assert checkpoints.latest().state == {"n": 3}


def test_the_log_says_which_checkpoints_are_damaged_and_which_one_is_restored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Job({}, tmp_path)
    for step in (10, 20, 30):
        job.save({"n": step}, step)
    assert job.restore().step == 30
    assert capsys.readouterr().err == ""
    (tmp_path / "00000003/state.pkl").write_bytes(b"")
    assert job.restore().step == 20
    assert capsys.readouterr().err == (
        "springtide: Checkpoint 00000003 is damaged: its files differ from the saved ones. "
        "00000002 of step 20 is restored instead.\n"
    )
    for number in (1, 2):
        (tmp_path / f"0000000{number}/state.pkl").unlink()
    assert job.restore() is None
    assert capsys.readouterr().err == (
        "springtide: The checkpoints 00000001, 00000002, 00000003 are damaged: their files differ from the "
        "saved ones. There is no other one to restore.\n"
    )


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(b""), lambda path: shutil.rmtree(path.parent)])
def test_a_run_that_continues_another_one_never_begins_from_the_start(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    job = Job({"SPRINGTIDE_CONTINUES": "1"}, tmp_path)
    job.save({"n": 3}, 3)
    assert job.restore().step == 3
    damage(tmp_path / "00000001/state.pkl")
    with pytest.raises(CheckpointError, match="This run continues another one, and does not begin from the start"):
        job.restore()


def test_only_the_newest_few_stay(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=Keep(last=2))
    for step in range(12):
        checkpoints.save(step, step)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000011", "00000012"]
    assert checkpoints.latest().state == 11


def test_a_rule_keeps_the_best_those_of_every_so_many_steps_and_the_newest(tmp_path: Path) -> None:
    losses = [0.9, 0.4, 0.1, 0.5, 0.6, 0.7, 0.8]
    values: dict[str, float] = {}
    checkpoints = Checkpoints(tmp_path, keep=Keep(last=1, every=5, best="loss"), values=values)
    for step, loss in enumerate(losses):
        values["loss"] = loss
        checkpoints.save(step, step)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000001", "00000003", "00000006", "00000007"]
    assert checkpoints.latest().state == 6


def test_manifests_that_say_nothing_usable_keep_nothing_more() -> None:
    odd: dict[str, Any] = {"step": True, "values": {"loss": "x"}}
    about: dict[int, dict[str, Any]] = {1: {"step": "5", "values": [1]}, 2: odd, 3: {}}
    assert kept([1, 2, 3, 4], about, Keep(last=1, every=1, best="loss")) == {4}
    assert kept([1, 2], {1: {"values": {"acc": 3}}, 2: {"values": {"acc": 2}}}, Keep(1, None, "acc", True)) == {
        1,
        2,
    }


def test_options_of_the_job_come_before_the_number_of_the_program() -> None:
    assert rule_of({}, 7) == Keep(last=7)
    options = {"SPRINGTIDE_KEEP_LAST": "2", "SPRINGTIDE_KEEP_EVERY": "100", "SPRINGTIDE_KEEP_BEST": "acc:max"}
    assert rule_of(options, 7) == Keep(last=2, every=100, best="acc", maximize=True)


def test_a_process_that_is_killed_while_it_saves_loses_nothing_older(place) -> None:
    text = """
from springtide.training import current_job
job = current_job()
job.save("good", step=1)
with job.checkpoint(step=2) as directory:
    (directory / "half").write_text("x" * 100000)
    print("writing", flush=True)
    import time; time.sleep(600)
"""
    process = place.start("-c", text)
    assert process.stdout.readline() == "writing\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    checkpoints = Checkpoints(place.checkpoints)
    assert checkpoints.latest().state == "good"
    for step in (3, 4):
        checkpoints.save("better", step)
    assert [path for path in place.checkpoints.iterdir() if path.name.endswith(".new")] == []


def test_of_several_processes_the_first_ones_counts(tmp_path: Path) -> None:
    for rank in (1, 0):
        with Checkpoints(tmp_path, rank=rank, world=2).writing(5) as directory:
            (directory / "model").write_text(str(rank))
        Checkpoints(tmp_path, rank=rank, world=2).save(rank, 6)
    found = Checkpoints(tmp_path).latest()
    assert found is not None
    assert found.state == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000001", "00000002"]
    assert (tmp_path / "00000001" / "model").read_text() == "0"


def test_several_processes_write_one_checkpoint_together(tmp_path: Path) -> None:
    def write(rank: int) -> None:
        checkpoints = Checkpoints(tmp_path, rank=rank, world=4)
        for step in range(5):
            with checkpoints.writing(step, shards=True) as directory:
                (directory / f"part-{rank}").write_text(f"{step} {rank}")

    threads = [threading.Thread(target=write, args=(rank,)) for rank in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = Checkpoints(tmp_path).latest()
    assert found is not None
    assert {path.name: path.read_text() for path in found.path.glob("part-*")} == {
        f"part-{rank}": f"4 {rank}" for rank in range(4)
    }
    assert not list(found.path.glob(".shard*"))


def test_a_part_that_never_comes_is_an_error_and_harms_nothing(tmp_path: Path, monkeypatch) -> None:
    Checkpoints(tmp_path).save("good", 1)
    monkeypatch.setattr("springtide.training.checkpoint._PATIENCE", 0.05)
    with (
        pytest.raises(CheckpointError, match="2 processes"),
        Checkpoints(tmp_path, rank=0, world=2).writing(2, shards=True) as directory,
    ):
        (directory / "part-0").touch()
    assert Checkpoints(tmp_path).latest().state == "good"


def test_everything_is_on_disk_before_it_counts(tmp_path: Path, monkeypatch) -> None:
    events: list[str] = []
    sync, rename = os.fsync, Path.rename

    def synced(file: int) -> None:
        events.append(str(Path(f"/proc/self/fd/{file}").readlink()))
        sync(file)

    def renamed(source: Path, to: Path) -> Path:
        events.append("rename")
        return rename(source, to)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "rename", renamed)
    Checkpoints(tmp_path).save("x", 1)
    names = [Path(event).name for event in events]
    assert names == ["state.pkl", "manifest.json", ".00000001.1.new", "rename", tmp_path.name]
