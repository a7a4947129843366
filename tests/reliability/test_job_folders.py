"""A service that is killed between the steps of a fork or a deletion: no folder stays that belongs to no job."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from patience import PATIENCE_S
from pools.pool_process import ServiceProcess

TRAIN = """
from springtide.training import current_job

job = current_job()
found = job.restore()
print("from", found.state if found else 0, flush=True)
for step in range(1, 3):
    job.save(step, step=step)
"""
LINKED = """
import os
from springtide.training import current_job

job = current_job()
with job.checkpoint(step=1) as folder:
    (folder / "weights").mkdir()
    (folder / "newest").symlink_to("weights")
"""
FORKS = "springtide.scheduler.engine.forks:"
COPIES = "springtide.scheduler.engine.copies:"
UNRECORDED = "springtide.scheduler.executors.files.unrecorded:"
STEPS = {
    "the copy is noted": f"{UNRECORDED}Unrecorded.begin:after",
    "the copy begins": "springtide.scheduler.executors.checkpoint_files:CheckpointFiles.copy",
    "the room is checked": "springtide.scheduler.executors.checkpoint_files:_check_room",
    "the copy is made": "springtide.scheduler.executors.checkpoint_files:CheckpointFiles.copy:after",
    "the record is written": "springtide.scheduler.engine.requests.control:accept_job",
}


class Pool:
    """A real service, and a job of it that has ended with two checkpoints."""

    def __init__(self, state: Path) -> None:
        self.jobs = state / "jobs"
        self.service = ServiceProcess(state)
        self.service.start()

    def call(self, method: str, path: str, **more: Any) -> Any:
        with httpx.Client(trust_env=False, verify=False, timeout=PATIENCE_S) as client:
            url = f"{self.service.url}api/v1{path}"
            return client.request(method, url, headers={"Authorization": "token susan"}, **more)

    def train(self, program: str = TRAIN) -> str:
        files = {"train.py": base64.b64encode(program.encode()).decode()}
        job = self.call("POST", "/jobs", json={"argv": ["python3", "{code}/train.py"], "files": files}).json()[
            "id"
        ]
        assert self.ended(job) == "succeeded"
        return str(job)

    def ended(self, job: str) -> str:
        self.until(lambda: self.call("GET", f"/jobs/{job}").json()["ended"] is not None)
        return str(self.call("GET", f"/jobs/{job}").json()["state"])

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, sorted(self.jobs.iterdir())
            time.sleep(0.05)

    def dies_at(self, step: str, job: str) -> None:
        """Start the service so that it is killed at a step of a fork, and fork the job."""
        self.service.kill()
        self.service.start(step)
        with pytest.raises(httpx.TransportError):
            self.call("POST", f"/jobs/{job}/fork", json={"key": "once"})
        assert self.service.died() == -9

    @property
    def folders(self) -> set[str]:
        return {path.name for path in self.jobs.iterdir() if not path.name.startswith(".")}

    @property
    def unrecorded(self) -> set[str]:
        return {path.name for path in (self.jobs / ".unrecorded").iterdir()}


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    pool = Pool(tmp_path)
    yield pool
    pool.service.stop()


@pytest.mark.parametrize("step", STEPS)
def test_a_death_before_the_record_leaves_no_folder(pool: Pool, step: str) -> None:
    job = pool.train()
    pool.dies_at(STEPS[step], job)
    assert len(pool.unrecorded) == 1
    pool.service.start()
    pool.until(lambda: not pool.unrecorded)
    assert pool.folders == {job}
    again = pool.call("POST", f"/jobs/{job}/fork", json={"key": "once"})
    assert again.status_code == 201, again.text
    assert pool.ended(again.json()["id"]) == "succeeded"
    assert pool.folders == {job, again.json()["id"]}


def test_a_death_amid_a_copy_leaves_no_folder(pool: Pool) -> None:
    job = pool.train()
    folder = pool.jobs / job / "checkpoints/00000002"
    for number in range(20_000):
        (folder / f"part{number}").write_text("x")

    def copied() -> list[Path]:
        return [*pool.jobs.glob("*/checkpoints/.00000002.new/part1*")]

    with ThreadPoolExecutor(1) as thread:
        fork = thread.submit(pool.call, "POST", f"/jobs/{job}/fork", json={}, timeout=60.0)
        pool.until(lambda: bool(copied()))
        pool.service.kill()
        with pytest.raises(httpx.TransportError):
            fork.result()
    assert pool.unrecorded == pool.folders - {job}
    pool.service.start()
    pool.until(lambda: not pool.unrecorded)
    assert pool.folders == {job}


def test_a_death_after_the_record_leaves_the_job_its_checkpoint(pool: Pool) -> None:
    job = pool.train()
    pool.dies_at(f"{COPIES}Copies._keep_or_delete", job)
    (fork,) = pool.folders - {job}
    pool.service.start()
    assert pool.ended(fork) == "succeeded"
    assert pool.call("GET", f"/jobs/{fork}/log").json()["text"].startswith("from 2")
    pool.until(lambda: not pool.unrecorded)
    assert pool.folders == {job, fork}


def test_a_death_amid_the_removal_of_a_refused_copy_leaves_no_folder(pool: Pool) -> None:
    job = pool.train(LINKED)
    pool.dies_at("os:rmdir", job)
    assert pool.unrecorded == pool.folders - {job}
    pool.service.start()
    pool.until(lambda: not pool.unrecorded)
    assert pool.folders == {job}


DELETIONS = "springtide.scheduler.engine.deletions:Deletions."
DELETION_STEPS = {
    "before the record": f"{DELETIONS}_with_parts:after",
    "before the files": f"{DELETIONS}_is_removed",
    "amid the files": "os:rmdir",
    "before that is noted": f"{DELETIONS}_put",
}


@pytest.mark.parametrize("step", DELETION_STEPS)
def test_a_deletion_is_finished_at_the_next_start_or_was_not_begun(pool: Pool, step: str) -> None:
    job, other = pool.train(), pool.train()
    pool.service.kill()
    pool.service.start(DELETION_STEPS[step])
    with suppress(httpx.TransportError):
        assert pool.call("DELETE", f"/jobs/{job}").status_code == 200
    assert pool.service.died() == -9
    pool.service.start()
    if step == "before the record":
        assert pool.call("GET", f"/jobs/{job}").status_code == 200
        assert pool.call("GET", f"/jobs/{job}/checkpoints").json()["items"]
        return
    assert pool.call("GET", f"/jobs/{job}").status_code == 404
    pool.until(lambda: pool.folders == {other})
    assert pool.call("GET", f"/jobs/{other}/checkpoints").json()["items"]


def test_a_refused_fork_leaves_no_folder_and_other_folders_stay(pool: Pool) -> None:
    job = pool.train(LINKED)
    (pool.jobs / "forgotten").mkdir()
    refused = pool.call("POST", f"/jobs/{job}/fork", json={})
    assert refused.status_code == 409
    assert "a link to another folder" in refused.json()["message"]
    assert pool.folders == {job, "forgotten"}
    assert pool.unrecorded == set()
