"""What runs is known from the process table: removed files start nothing twice, and hide no end."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from benches.executor_bench import SLEEPS, STUBBORN
from benches.local_bench import FORKS_AWAY, LocalBench, dead
from machines.numbered_machine import environments, gpus_by_process
from machines.processes import alive
from patience import PATIENCE_S

from springtide.scheduler.executors import file_executor
from springtide.scheduler.executors.base import AttemptPhase, ExecutorError, ExitKind
from springtide.scheduler.executors.files.layout import JobPlaces
from springtide.scheduler.executors.files.removal import remove_files
from springtide.scheduler.executors.local import executor, launch, supervision

ENDS_WITH = """
import os, signal, sys, time
print("ready", flush=True)
while not os.path.exists({flag!r}):
    time.sleep(0.02)
sys.exit({code})
"""


def remove(bench: LocalBench, job: str, what: str) -> None:
    """Remove a job's files: all of them, those of its attempts, or of its one attempt."""
    root = bench.state / "jobs" / job
    shutil.rmtree({"job": root, "attempts": root / "attempts", "attempt": root / "attempts" / "1"}[what])


@pytest.mark.parametrize("what", ["job", "attempts", "attempt"])
async def test_a_job_whose_files_are_gone_is_found_again_and_runs_once(bench: LocalBench, what: str) -> None:
    spec = bench.code(SLEEPS)
    await bench.executor.launch(spec)
    await bench.running(spec.key)
    before = gpus_by_process(bench.state)
    await bench.executor.stop()
    remove(bench, "job", what)
    bench.executor = bench.make()
    await bench.open()
    found = await bench.status(spec.key)
    assert found is not None
    assert found.phase is AttemptPhase.RUNNING
    assert [worker.uuids for worker in found.placement] == [tuple(before["job.1"])]
    await bench.executor.launch(spec)
    assert gpus_by_process(bench.state) == before
    await bench.executor.kill(spec.key)
    ended = await bench.gone(spec.key)
    assert ended.exit is not None
    assert ended.exit.kind is ExitKind.EXITED
    assert gpus_by_process(bench.state) == {}


@pytest.mark.parametrize("way", ["pause", "kill", "now"])
@pytest.mark.parametrize("what", ["job", "attempts"])
async def test_a_job_whose_files_are_gone_can_be_stopped_without_a_restart(
    bench: LocalBench, what: str, way: str
) -> None:
    spec = bench.code(STUBBORN if way == "now" else SLEEPS, grace=600.0)
    await bench.executor.launch(spec)
    await bench.running(spec.key)
    remove(bench, "job", what)
    if way == "pause":
        await bench.executor.pause(spec.key)
    else:
        await bench.executor.kill(spec.key, now=way == "now")
    ended = await bench.gone(spec.key)
    assert ended.exit is not None
    assert (ended.exit.kind, ended.exit.paused) == (ExitKind.EXITED, way == "pause")
    assert environments(bench.state) == {}


@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize("restarted", [False, True])
async def test_a_job_whose_files_are_gone_ends_as_it_ends(
    bench: LocalBench, tmp_path: Path, code: int, restarted: bool
) -> None:
    flag = tmp_path / "flag"
    spec = bench.code(ENDS_WITH.format(flag=str(flag), code=code))
    await bench.executor.launch(spec)
    await bench.running(spec.key)
    remove(bench, "job", "attempts")
    if restarted:
        await bench.restart()
    flag.touch()
    ended = await bench.gone(spec.key)
    assert ended.exit is not None
    assert (ended.exit.kind, ended.exit.code) == (ExitKind.EXITED, code)


async def test_an_end_while_the_service_is_away_is_recorded_without_a_directory(
    bench: LocalBench, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    spec = bench.code(ENDS_WITH.format(flag=str(flag), code=3))
    await bench.executor.launch(spec)
    await bench.running(spec.key)
    supervisor = bench.supervisor(spec.key)
    await bench.executor.stop()
    remove(bench, "job", "job")
    flag.touch()
    await dead(supervisor)
    bench.executor = bench.make()
    await bench.open()
    ended = await bench.gone(spec.key)
    assert ended.exit is not None
    assert (ended.exit.kind, ended.exit.code) == (ExitKind.EXITED, 3)


@pytest.mark.parametrize("restarted", [False, True])
async def test_what_a_killed_supervisor_leaves_is_ended_also_without_its_files(
    bench: LocalBench, restarted: bool
) -> None:
    spec = bench.code(FORKS_AWAY.format(more="", then="time.sleep(600)"))
    await bench.executor.launch(spec)
    (hidden,) = await bench.pids("job")
    await bench.running(spec.key, says=b"")
    supervisor = bench.supervisor(spec.key)
    if restarted:
        await bench.executor.stop()
    remove(bench, "job", "job")
    os.kill(supervisor, signal.SIGKILL)
    await dead(supervisor)
    if restarted:
        bench.executor = bench.make()
        await bench.open()
        assert alive(hidden)
        found = await bench.executor.recall(spec.key)
        assert found is not None
    ended = await bench.gone(spec.key)
    assert ended.exit is not None
    assert ended.exit.kind is ExitKind.LOST
    assert not alive(hidden)


@pytest.fixture
def earlier_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Supervisors that do not know their attempt, and look for requests in their own directory alone."""
    program = tmp_path / "supervisor"
    shutil.copytree(launch.PROGRAM, program)
    text = (program / "attempt.py").read_text()
    looks = ' or os.path.lexists(f"{self.path}/{request}")'
    assert looks in text
    assert "            if names.rank is None:\n                write_again" in text
    text = text.replace(looks, "").replace("            if names.rank is None:\n", "            if False:\n")
    (program / "attempt.py").write_text(text)
    monkeypatch.setattr(launch, "PROGRAM", program)
    monkeypatch.setattr(supervision, "described", lambda *_: {})
    monkeypatch.setattr(executor, "KILL_AFTER", 0.2)


@pytest.mark.usefixtures("earlier_version")
async def test_a_supervisor_of_an_earlier_version_is_found_by_its_workers(bench: LocalBench) -> None:
    spec = bench.code(SLEEPS)
    await bench.executor.launch(spec)
    await bench.running(spec.key)
    shown = gpus_by_process(bench.state)["job.1"]
    await bench.executor.stop()
    remove(bench, "job", "job")
    bench.executor = bench.make()
    await bench.open()
    found = await bench.status(spec.key)
    assert found is not None
    assert [worker.uuids for worker in found.placement] == [tuple(shown)]


@pytest.mark.usefixtures("earlier_version")
async def test_a_job_of_an_earlier_version_whose_files_are_gone_can_be_cancelled(bench: LocalBench) -> None:
    spec = bench.code(SLEEPS)
    await bench.executor.launch(spec)
    await bench.running(spec.key)
    remove(bench, "job", "attempts")
    await bench.executor.kill(spec.key)
    ended = await bench.gone(spec.key)
    assert ended.exit is not None
    assert ended.exit.kind is ExitKind.LOST
    assert environments(bench.state) == {}


async def test_a_record_of_an_end_is_not_believed_while_the_supervisor_lives(
    bench: LocalBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after files were put back from a backup."""
    monkeypatch.setattr("springtide.scheduler.executors.local.executor.ENDS_WITHIN", 0.2)
    spec = bench.code(SLEEPS)
    await bench.executor.launch(spec)
    await bench.running(spec.key)
    await bench.executor.stop()
    ended = {"kind": "exited", "at": 1.0, "code": 0}
    (bench.directory(spec.key) / "exit.json").write_text(json.dumps(ended))
    bench.executor = bench.make()
    await bench.open()
    found = await bench.status(spec.key)
    assert found is not None
    assert found.phase is AttemptPhase.RUNNING


async def stopped_after_its_end(bench: LocalBench, tmp_path: Path) -> int:
    """Return a supervisor that has recorded the end of its job and lives on, without processor time."""
    spec = bench.code(ENDS_WITH.format(flag=str(tmp_path / "flag"), code=0))
    await bench.executor.launch(spec)
    await bench.running(spec.key)
    supervisor = bench.supervisor(spec.key)
    os.kill(supervisor, signal.SIGSTOP)
    (tmp_path / "flag").touch()
    record = bench.directory(spec.key) / "exit.json"
    record.with_suffix(".new").write_text(json.dumps({"kind": "exited", "at": 1.0, "code": 0}))
    record.with_suffix(".new").rename(record)
    await bench.gone(spec.key)
    return supervisor


async def test_a_job_is_removed_after_its_supervisor_which_may_record_the_end_once_more(
    bench: LocalBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = await stopped_after_its_end(bench, tmp_path)
    lived = []

    def remove_now(places: JobPlaces) -> None:
        lived.append(alive(supervisor))
        remove_files(places)

    monkeypatch.setattr(file_executor, "remove_files", remove_now)
    removal = asyncio.create_task(bench.executor.remove("job"))
    await asyncio.sleep(0)
    os.kill(supervisor, signal.SIGCONT)
    await removal
    assert lived == [False]
    assert not (bench.state / "jobs" / "job").exists()
    await bench.restart()
    assert await bench.executor.attempts() == ()


async def test_a_supervisor_that_does_not_end_keeps_a_removal_for_a_moment_only(
    bench: LocalBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = await stopped_after_its_end(bench, tmp_path)
    monkeypatch.setattr(executor, "ENDS_WITHIN", 0.2)
    with pytest.raises(ExecutorError, match="The supervisor of the job job has not ended yet"):
        await bench.executor.remove("job")
    os.kill(supervisor, signal.SIGCONT)
    monkeypatch.setattr(executor, "ENDS_WITHIN", PATIENCE_S)
    await bench.executor.remove("job")
    assert not (bench.state / "jobs" / "job").exists()
