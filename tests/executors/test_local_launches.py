"""An attempt starts once, or never, and its end is recorded once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
from benches.executor_bench import SAVES, SLEEPS
from benches.local_bench import LocalBench
from patience import PATIENCE_S

from springtide.scheduler.executors.base import AttemptPhase, ExecutorError, ExitKind
from springtide.scheduler.executors.files.layout import opened
from springtide.scheduler.executors.local import LocalExecutor
from springtide.scheduler.executors.local.executor import service_environment
from springtide.scheduler.executors.local.launch import PROGRAM
from springtide.scheduler.executors.supervisor.records import take_lock
from springtide.scheduler.telemetry import discover


async def test_an_attempt_never_runs_twice_however_many_supervisors_start(bench: LocalBench) -> None:
    spec = bench.code(SLEEPS)
    await bench.executor.launch(spec)
    command = [sys.executable, "-I", "-S", str(PROGRAM), str(bench.directory(spec.key))]
    others = [await asyncio.create_subprocess_exec(*command) for _ in range(4)]
    await bench.running(spec.key)
    os.kill(bench.supervisor(spec.key), signal.SIGKILL)
    await bench.gone(spec.key)
    late = await asyncio.create_subprocess_exec(*command)
    async with asyncio.timeout(PATIENCE_S):
        for each in (*others, late):
            await each.wait()
    assert (await bench.log("job")).split() == ["ready"]


async def test_a_supervisor_that_another_started_is_followed(bench: LocalBench) -> None:
    spec = bench.code(SLEEPS)
    directory = bench.directory(spec.key)
    await asyncio.to_thread(bench.executor._prepare, spec, directory)
    first = await asyncio.create_subprocess_exec(sys.executable, "-I", "-S", str(PROGRAM), str(directory))
    await bench.executor.launch(spec)
    await bench.running(spec.key)
    await bench.executor.pause(spec.key)
    ended = await bench.gone(spec.key)
    assert ended.exit is not None
    assert ended.exit.paused
    async with asyncio.timeout(PATIENCE_S):
        await first.wait()
    assert (await bench.log("job")).split() == ["ready"]


async def test_a_launch_that_was_cut_short_is_completed_at_the_return(bench: LocalBench) -> None:
    spec = bench.code(SAVES.format(code=75))
    executor = bench.make()
    directory = bench.directory(spec.key)
    await asyncio.to_thread(executor._prepare, spec, directory)
    await bench.restart()
    await bench.running(spec.key)
    await bench.executor.launch(spec)
    await bench.executor.pause(spec.key)
    ended = await bench.gone(spec.key)
    assert ended.exit is not None
    assert ended.exit.code == 75


@pytest.mark.parametrize("request_", ["pause", "kill"])
async def test_an_attempt_that_is_stopped_at_once_may_never_start(bench: LocalBench, request_: str) -> None:
    spec = bench.code(SLEEPS)
    await bench.executor.launch(spec)
    await getattr(bench.executor, request_)(spec.key)
    ended = await bench.gone(spec.key)
    assert ended.exit is not None
    assert ended.exit.kind is ExitKind.EXITED
    assert ended.exit.code != 0
    assert ended.exit.paused == (request_ == "pause")
    assert ended.exit.killed is False


async def test_only_the_exit_of_an_attempt_without_supervisor_is_recorded_by_the_service(
    bench: LocalBench,
) -> None:
    spec = bench.code(SLEEPS)
    await asyncio.to_thread(bench.executor._prepare, spec, bench.directory(spec.key))
    bench.executor._supervision.tracked[spec.key] = bench.executor._load(spec.key)
    with opened(bench.directory(spec.key)) as directory:
        lock = take_lock(directory)
        assert lock is not None
        await bench.executor.pause(spec.key)
        assert (await bench.status(spec.key)).phase is AttemptPhase.STARTING
        os.close(lock)
    await bench.executor.pause(spec.key)
    ended = await bench.gone(spec.key)
    assert ended.exit is not None
    assert ended.exit.paused


async def test_an_executor_that_could_not_start_can_be_stopped(tmp_path: Path) -> None:
    (tmp_path / "jobs").write_text("not a directory")
    executor = LocalExecutor(tmp_path, discover(2, 1))
    with pytest.raises((ExecutorError, OSError)):
        await executor.start(lambda _: None)
    await executor.stop()


def test_jobs_under_the_services_account_have_its_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "USER", "LOGNAME", "SHELL"):
        monkeypatch.delenv(name, raising=False)
    found = service_environment()
    assert Path(found["HOME"]).is_dir()
    assert found["USER"] == found["LOGNAME"]
    assert found["SHELL"].startswith("/")


async def test_an_attempt_that_has_ended_leaves_no_zombie(bench: LocalBench) -> None:
    spec = bench.code("print('ready', flush=True)")
    await bench.executor.launch(spec)
    await bench.gone(spec.key)
    supervisor = bench.supervisor(spec.key)
    await bench.executor.discard(spec.key)
    await bench.until(lambda: not psutil.pid_exists(supervisor), "the end of the supervisor, zombies included")
