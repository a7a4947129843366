"""Checkpoints on the volume of jobs: listed, copied and deleted by the service, beside pods that write there."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from benches.kube_bench import KubeBench

from springtide.scheduler.executors.base import AttemptKey, CheckpointGoneError, ExecutorError


def save(job: Path, number: int) -> None:
    place = job / f"checkpoints/{number:08d}"
    place.mkdir()
    (place / "state.bin").write_text(f"state {number}")
    (place / "manifest.json").write_text(json.dumps({"step": number, "at": 5.0, "files": {}}))
    owner = (job / "checkpoints").stat()
    for path in (place, *place.iterdir()):
        os.chown(path, owner.st_uid, owner.st_gid)  # pods run as the owner


async def test_checkpoints_of_a_pod_become_those_of_another_job(bench: KubeBench) -> None:
    spec = bench.job()
    await bench.up(spec)
    job = bench.executor._layout.job("job").root
    save(job, 1)
    save(job, 2)
    (job / "work/ckpt_step_9.pt").write_text("recognised")
    (job / "output/last.ckpt").write_text("lightning")
    bench.end_pod(0)
    await bench.gone(AttemptKey("job", 1))
    found = await bench.executor.list_checkpoints(spec)
    assert {each.name for each in found} == {"00000002", "00000001", "ckpt_step_9.pt", "../output/last.ckpt"}
    fork = bench.job(job="fork")
    assert await bench.executor.copy_checkpoint(spec, "00000001", fork) is None
    copied = await bench.executor.copy_checkpoint(spec, "ckpt_step_9.pt", fork)
    beside = await bench.executor.copy_checkpoint(spec, "../output/last.ckpt", fork)
    assert (copied.path, beside.path) == ("ckpt_step_9.pt", "/springtide/job/output/last.ckpt")
    await bench.executor.delete_checkpoints(spec, {"00000001", "00000002"})
    await bench.executor.remove("job")
    assert await bench.executor.unrecorded() == ["fork"]
    await bench.executor.recorded("fork")
    place = bench.executor._layout.job("fork").root
    assert (place / "checkpoints/00000001/state.bin").read_text() == "state 1"
    assert (place / "work/ckpt_step_9.pt").read_text() == "recognised"
    await bench.up(fork)
    assert (place / "output/last.ckpt").read_text() == "lightning"


async def test_the_folder_of_a_fork_without_a_record_is_known_until_it_is_removed(bench: KubeBench) -> None:
    spec = bench.job()
    await bench.up(spec)
    job = bench.executor._layout.job("job").root
    with pytest.raises(CheckpointGoneError):
        await bench.executor.copy_checkpoint(spec, "00000001", bench.job(job="fork"))
    save(job, 1)
    with pytest.raises(ExecutorError, match="exists already"):
        await bench.executor.copy_checkpoint(spec, "00000001", bench.job(job="job"))
    assert await bench.executor.unrecorded() == ["fork"]
    assert await bench.executor.size("job") > len("state 1")
    (job / "output/away").symlink_to("/usr/bin/python3")
    assert await bench.executor.size("job") < 1_000_000, "links are not followed"
    await bench.executor.remove("fork")
    assert await bench.executor.unrecorded() == []
    assert [path.name for path in job.parent.iterdir() if not path.name.startswith(".")] == ["job"]


async def test_a_link_of_a_pod_to_another_jobs_files_is_no_checkpoint(bench: KubeBench) -> None:
    spec = bench.job()
    await bench.up(spec)
    root = bench.executor._layout.job("job").root
    other = root.parent / "other/checkpoints"
    other.mkdir(parents=True)
    save(other.parent, 1)
    (root / "work/last.pt").symlink_to(other / "00000001/state.bin")
    (root / "checkpoints/00000001").symlink_to(other / "00000001")
    assert await bench.executor.list_checkpoints(spec) == ()
    with pytest.raises(CheckpointGoneError):
        await bench.executor.copy_checkpoint(spec, "00000001", bench.job(job="fork"))
