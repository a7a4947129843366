"""A sweep among colleagues: it shrinks to its project's quota, grows again, and survives kills of the service."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from pool_process import ServiceProcess

from springtide.scheduler.client import Client
from springtide.training import current_job
from springtide.widgets.connection import Connection
from springtide.widgets.shared_pool import Pool
from springtide.widgets.submission.spaces import points_of
from springtide.widgets.sweep import Sweep

PROJECTS = {"vision": (4, ("susan",)), "speech": (2, ("joe",)), "robots": (2, ("jemma",))}
GPUS, QUOTA = 8, 4
SPACE = {"rate": [place / 40 for place in range(1, 21)], "layers": [1, 2, 3, 4, 5, 6]}
TRIALS = 60
SEED = 7
PATIENCE_S = 90
HOLD = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ServiceProcess]:
    service = ServiceProcess(tmp_path, projects=PROJECTS)
    service.start()
    yield service
    service.stop()


@pytest.fixture
def pool_of(service: ServiceProcess) -> Callable[[str], Pool]:
    """The pool as a new kernel of a person sees it."""
    return lambda user: Pool(Connection(Client(service.url, user, patience=30.0)))


@pytest.fixture
def train() -> Callable[..., float]:
    """A training of ten steps, by a state that a checkpoint has to bring back; it waits while there is a file."""

    def train(rate: float, layers: int) -> float:
        job = current_job()
        found = job.restore()
        loss, done, chance = found.state if found else (10.0, 0, random.Random(layers))
        for step in range(done, 10):
            loss = loss * (1 - rate) + layers * chance.random() / 10
            job.report(step=step + 1, of=10, loss=loss)
            while Path("hold").exists() and not job.should_pause():
                time.sleep(0.05)
            if job.should_pause():
                job.save((loss, step + 1, chance), step=step + 1)
                job.exit_for_pause()
        return float(loss)

    return train


def until(true: Callable[[], object]) -> None:
    """Wait until something is true; ask seldom, for the trials need the processor."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.2)


def found_alone(train: Callable[..., float], directory: Path) -> list[tuple[dict[str, Any], float]]:
    """Return the points of the same sweep with their values, as one process finds them without a pool."""
    points = points_of(SPACE, TRIALS, SEED)
    script = "import pickle, sys; train, points = pickle.load(sys.stdin.buffer)\n"
    script += "sys.stdout.buffer.write(pickle.dumps([train(**point) for point in points]))"
    work = cloudpickle.dumps((train, points))
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=directory, input=work, capture_output=True, check=True
    )
    return list(zip(points, pickle.loads(done.stdout), strict=True))


def test_a_sweep_gives_gpus_back_takes_them_again_and_finds_the_same_through_two_kills(
    service: ServiceProcess,
    pool_of: Callable[[str], Pool],
    train: Callable[..., float],
    workdir: Path,
) -> None:
    hold = workdir / "hold"
    hold.touch()
    sweep = pool_of("susan").sweep(train, SPACE, trials=TRIALS, seed=SEED, metric="loss", name="disturbed")
    until(lambda: sweep.info.trials.gpus == GPUS)

    colleagues = [pool_of(user).submit(HOLD, gpus=2, name=user) for user in ("joe", "jemma")]
    until(lambda: all(job.state == "running" for job in colleagues))
    until(lambda: sweep.info.trials.gpus == QUOTA and sweep.info.trials.borrowed == 0)
    assert 0 < sweep.info.trials.paused <= GPUS - QUOTA

    service.kill()
    service.start()
    assert sweep.info.trials.gpus == QUOTA
    hold.unlink()
    until(lambda: sweep.info.trials.succeeded > 10)
    hold.touch()
    for job in colleagues:
        job.cancel()
    until(lambda: sweep.info.trials.gpus == GPUS)

    service.kill()
    hold.unlink()
    service.start()
    again = pool_of("susan").job(sweep.id)
    assert isinstance(again, Sweep)
    again.wait(PATIENCE_S, quiet=True)
    assert again.state == "succeeded"
    assert max(row.attempt for row in again.trials()) > 1

    alone = found_alone(train, workdir)
    assert [(row.state, row.parameters, row.value) for row in again.trials()] == [
        ("succeeded", point, value) for point, value in alone
    ]
    best = min(range(TRIALS), key=lambda place: alone[place][1])
    assert (again.best.trial, again.best.parameters, again.best.value) == (best, *alone[best])
