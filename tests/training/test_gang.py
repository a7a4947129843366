"""Gangs of real processes and threads: all pause at one step, whatever they are asked by and however they run."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from patience import PATIENCE_S

from springtide.training import AGAIN
from springtide.training.gang import Gang
from springtide.training.job import Job

LOCKSTEP = """
from springtide.training import current_job
import pathlib, time
job = current_job()
found = job.restore()
done = int(found.step) if found else 0
meet = pathlib.Path(f"meet-{job.attempt}"); meet.mkdir(exist_ok=True)
for step in range(done + 1, done + 100000):
    (meet / f"{step}.{job.rank}").touch()
    while not all((meet / f"{step}.{rank}").exists() for rank in range(job.world)):
        time.sleep(0.0005)
    job.report(step=step)
    if job.should_pause():
        with job.checkpoint(step=step) as directory:
            (directory / "model").write_text(str(job.rank))
        print(step)
        job.exit_for_pause()
"""


def never() -> bool:
    return False


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.parametrize("seed", range(4))
def test_all_ranks_pause_at_the_same_step_however_unevenly_they_run(tmp_path: Path, seed: int) -> None:
    drawn = random.Random(seed)
    world = 5
    ends: dict[int, int] = {}
    asked = threading.Event()

    def train(rank: int) -> None:
        mine = random.Random(seed * 100 + rank)
        gang = Gang(tmp_path, 1, rank, world)
        for step in range(1, 1_000_000):
            time.sleep(mine.random() * 0.003 if mine.random() < 0.02 else 0.0002)
            if gang.reached(step, asked.is_set if rank == seed else never):
                ends[rank] = step
                return

    threads = [threading.Thread(target=train, args=(rank,)) for rank in range(world)]
    for thread in threads:
        thread.start()
    time.sleep(drawn.random() * 0.2)
    asked.set()
    for thread in threads:
        thread.join(timeout=PATIENCE_S)
    assert len(ends) == world
    assert len(set(ends.values())) == 1, ends


def test_ranks_that_ask_only_at_some_steps_agree_too(tmp_path: Path) -> None:
    ends: dict[int, int] = {}
    asked = threading.Event()

    def train(rank: int, stride: int) -> None:
        gang = Gang(tmp_path, 1, rank, 2)
        for step in range(stride, 1_000_000, stride):
            time.sleep(0.001 * stride)
            if gang.reached(step, asked.is_set):
                ends[rank] = step
                return

    threads = [threading.Thread(target=train, args=each) for each in ((0, 1), (1, 10))]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    asked.set()
    for thread in threads:
        thread.join(timeout=PATIENCE_S)
    assert ends[0] == ends[1]
    assert ends[0] % 10 == 0


def test_what_an_attempt_before_agreed_on_does_not_count(tmp_path: Path) -> None:
    """Nor how many its processes were: an elastic gang resumes with another number."""
    before = [Gang(tmp_path, 1, rank, 3) for rank in range(3)]
    asked = threading.Event()

    def pauses(gangs: list[Gang], step: int) -> list[bool]:
        return [gang.reached(step, asked.is_set) for gang in gangs]

    assert not any(pauses(before, 1))
    asked.set()
    steps = iter(range(2, 1_000_000))
    until(lambda: all(pauses(before, next(steps))))
    for attempt, world in ((2, 2), (3, 4)):
        gangs = [Gang(tmp_path, attempt, rank, world) for rank in reversed(range(world))]
        assert not any(gang.reached(step, never) for gang in gangs for step in (2, 3, 4))
        assert [path.name for path in tmp_path.iterdir()] == [f".pause-of-attempt-{attempt}"]


def test_a_rank_that_learns_of_a_pause_late_never_answers_twice(tmp_path: Path) -> None:
    """Rank 1 asks for the first time when rank 0 has paused: its steps up to that one are not paused at."""
    gangs = [Gang(tmp_path, 1, rank, 2) for rank in range(2)]
    asked = threading.Event()
    steps = iter(range(10, 1_000_000))
    assert not gangs[0].reached(9, asked.is_set)
    asked.set()
    until(lambda: gangs[0].reached(next(steps), never))
    agreed = next(steps) - 1
    assert [gangs[1].reached(agreed + more, never) for more in (-2, -1, 0)] == [False, False, True]


@pytest.mark.parametrize(
    ("master", "way"),
    [("127.0.0.1", "all are asked"), ("127.0.0.1", "one is asked"), ("w0.st-job-1", "one is asked")],
)
def test_a_gang_in_lockstep_pauses_without_deadlock_and_resumes(place, way: str, master: str) -> None:
    step = ""
    for attempt in (1, 2):
        mine = "" if way == "one is asked" else str(place.pause_file)
        more = {"MASTER_ADDR": master, "SPRINGTIDE_PAUSE_FILE": mine, "attempt": attempt}
        gang = [place.start("-c", LOCKSTEP, rank=rank, world=3, **more) for rank in range(3)]
        place.until(lambda attempt=attempt: [r for r in place.reports() if r["attempt"] == attempt], "a step")
        place.pause_file.touch()
        for process in gang[1:2] if way == "one is asked" else reversed(gang):
            process.send_signal(signal.SIGTERM)
        outs = [process.communicate(timeout=PATIENCE_S) for process in gang]
        assert [process.returncode for process in gang] == [AGAIN] * 3, outs
        (step,) = {out for out, _ in outs}
        steps = [each["step"] for each in place.reports() if each.get("step") is not None]
        assert steps[-1] == float(step)
        place.pause_file.unlink()
    newest = max(path for path in place.checkpoints.iterdir() if path.name.isdigit())
    assert (newest / "model").read_text() == "0"
    assert json.loads((newest / "manifest.json").read_text())["step"] == int(step)


ENDS = """
from springtide.training import current_job
import pathlib, sys, time
job = current_job()
for step in range(1, int(sys.argv[1]) + 1):
    job.should_pause(step)
    print(step, flush=True)
    time.sleep(float(sys.argv[2]))
"""


def test_a_gang_that_is_asked_when_one_has_ended_completes_its_training(place) -> None:
    first = place.start("-c", ENDS, "20", "0", rank=0, world=2)
    second = place.start("-c", ENDS, "20", "0.05", rank=1, world=2)
    assert first.wait(timeout=PATIENCE_S) == 0
    place.pause_file.touch()
    assert second.communicate(timeout=PATIENCE_S)[0].split()[-1] == "20"
    assert second.returncode == 0


def test_a_full_disk_ends_no_training(tmp_path: Path) -> None:
    gang = Gang(tmp_path / "none", 1, 1, 2)
    (tmp_path / "none").touch()
    assert not gang.reached(1, lambda: True)
    (tmp_path / "none").unlink()
    assert not gang.reached(2, never)


def test_a_single_process_needs_nobody(place) -> None:
    job = Job(place.environment())
    assert not job.should_pause()
    place.pause_file.touch()
    place.until(job.should_pause, "the pause file to be seen")
    assert list(place.checkpoints.iterdir()) == []
