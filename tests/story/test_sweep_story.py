"""A sweep from a notebook among colleagues: it shrinks to its quota, grows again, and survives all that ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hubs.hub_people import Hub, until
from hubs.kernel_notebook import KernelNotebook
from patience import PATIENCE_S

from springtide.scheduler.client import Client
from springtide.scheduler.wire import ProjectEdit, Submission, TrialCounts
from springtide.widgets.submission.spaces import points_of

pytestmark = [pytest.mark.xdist_group("story"), pytest.mark.timeout(600)]

GPUS, QUOTA = 8, 4
SPACE = {"rate": [place / 40 for place in range(1, 21)], "layers": [1, 2, 3, 4, 5, 6]}
TRIALS = 40
SEED = 7
UNFINISHED = "queued,starting,running,pausing,cancelling,ending,paused"
LOG_END = 6000

TRAIN = '''
import random
import time
from pathlib import Path

from springtide.training import current_job


def train(rate, layers):
    """Take ten steps by a state that a checkpoint has to bring back; wait while there is a file."""
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
'''
SUBMIT = f"""{TRAIN}
from springtide.widgets import pool

Path("hold").touch()
sweep = pool.sweep(train, {SPACE}, trials={TRIALS}, seed={SEED}, metric="loss", name="disturbed")
print(sweep.id, Path("hold").absolute())
"""
COME_BACK = f"""
import json

from springtide.widgets import pool

assert "sweep" not in globals(), "the kernel has not restarted"
(sweep,) = pool.jobs(search="disturbed", limit=1)
sweep.wait({2 * PATIENCE_S}, quiet=True)
trials = [(row.state, row.parameters, row.value, row.attempt) for row in sweep.trials()]
best = sweep.best
print(json.dumps([sweep.state, trials, (best.trial, best.parameters, best.value)]))
"""
ALONE = f"""{TRAIN}
import json
import sys

json.dump([train(**point) for point in json.load(sys.stdin)], sys.stdout)
"""


@pytest.fixture(autouse=True)
def told(hub: Hub) -> Iterator[None]:
    """Print the end of the hub's log, which shows why a story failed; no browser takes part."""
    yield
    print((hub.state_dir / "hub/hub.log").read_text()[-LOG_END:])


@pytest.fixture
def client_of(hub: Hub) -> Callable[[str], Client]:
    """The pool as a person sees it, also while its service is away."""
    return lambda user: Client(f"{hub.url}/services/springtide", hub.token(user), patience=60.0)


@pytest.fixture
def susans_quota(client_of: Callable[[str], Client]) -> Iterator[int]:
    """The quota that susan's project has meanwhile; in the end all jobs are ended."""
    with client_of("admin") as admin:
        (before,) = (project.quota for project in admin.pool().projects if project.name == "susan")
        admin.edit_project("susan", ProjectEdit(quota=QUOTA))
        yield QUOTA
        for job in list(admin.all_jobs(state=UNFINISHED)):
            admin.cancel(job.id)
        until("the end of all jobs", lambda: not admin.jobs(state=UNFINISHED).items)
        admin.edit_project("susan", ProjectEdit(quota=before))


@pytest.fixture
def notebook(hub: Hub) -> Iterator[KernelNotebook]:
    """A kernel of susan's, on her own notebook server."""
    with KernelNotebook(hub.url, "susan", hub.token("susan")) as notebook:
        if notebook.is_running():
            notebook.start_kernel()
        else:
            notebook.start(gpus=0)
        yield notebook
        notebook.stop_kernel()


def found_alone(directory: Path) -> list[tuple[dict[str, Any], float]]:
    """Return the points of the same sweep with their values, as one process finds them without a pool."""
    points = points_of(SPACE, TRIALS, SEED)
    command, asked = [sys.executable, "-c", ALONE], json.dumps(points)
    done = subprocess.run(command, cwd=directory, input=asked, text=True, stdout=subprocess.PIPE, check=True)
    return list(zip(points, json.loads(done.stdout), strict=True))


def kill_service(hub: Hub) -> None:
    """Kill the service, and wait until the hub has started another one."""
    pid = hub.service_pid()
    os.kill(pid, signal.SIGKILL)
    hub.service_after(pid)


def test_a_sweep_from_a_notebook_finds_the_same_through_colleagues_two_kills_and_a_restart_of_its_kernel(
    hub: Hub,
    notebook: KernelNotebook,
    client_of: Callable[[str], Client],
    susans_quota: int,
    tmp_path: Path,
) -> None:
    sweep, file = notebook.run(SUBMIT).split()
    hold, susan = Path(file), client_of("susan")

    def trials() -> TrialCounts:
        counts = susan.job(sweep).trials
        assert counts is not None
        return counts

    until("the whole pool for the sweep", lambda: trials().gpus == GPUS, seconds=PATIENCE_S)

    colleagues = {name: client_of(name) for name in ("joe", "jemma")}
    work = Submission(argv=["sleep", "600"], gpus=2)
    jobs = {name: client.submit(work).id for name, client in colleagues.items()}
    for name, client in colleagues.items():
        until(f"{name}'s job", lambda: client.job(jobs[name]).state == "running", seconds=PATIENCE_S)  # noqa: B023
    until("the quota alone", lambda: (trials().gpus, trials().borrowed) == (susans_quota, 0), seconds=PATIENCE_S)
    assert 0 < trials().paused <= GPUS - susans_quota

    kill_service(hub)
    assert trials().gpus == susans_quota
    hold.unlink()
    until("trials that end", lambda: trials().succeeded > 6, seconds=PATIENCE_S)
    hold.touch()
    for name, client in colleagues.items():
        client.cancel(jobs[name])
    until("the whole pool again", lambda: trials().gpus == GPUS, seconds=PATIENCE_S)

    notebook.restart_kernel()
    kill_service(hub)
    hold.unlink()
    state, rows, best = json.loads(notebook.run(COME_BACK))
    assert state == "succeeded"
    assert max(attempt for *_, attempt in rows) > 1

    alone = found_alone(tmp_path)
    assert [row[:3] for row in rows] == [["succeeded", point, value] for point, value in alone]
    first = min(range(TRIALS), key=lambda place: alone[place][1])
    assert best == [first, *alone[first]]
