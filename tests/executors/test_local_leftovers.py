"""No process of an attempt is left behind, wherever it hides and however its supervisor dies."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from benches.executor_bench import READY, SLEEPS, STUBBORN
from benches.local_bench import FORKS_AWAY, LocalBench, dead
from machines.processes import alive, is_ending, lingering
from patience import PATIENCE_S

from springtide.scheduler.executors.base import AttemptKey, AttemptPhase, AttemptStatus, ExitKind
from springtide.scheduler.executors.files.layout import read_run_time
from springtide.scheduler.executors.local import launch
from springtide.scheduler.executors.local.running import MARK

HOUR = 3600.0


async def kill_supervisor_while_away(bench: LocalBench, key: AttemptKey, **recorded: Any) -> None:
    """Stop the service and kill an attempt's supervisor; its record then has the fields ``recorded``."""
    await bench.executor.stop()
    supervisor = bench.supervisor(key)
    os.kill(supervisor, signal.SIGKILL)
    await dead(supervisor)
    path = bench.directory(key) / "supervisor.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **recorded}))


async def come_back(bench: LocalBench, key: AttemptKey) -> AttemptStatus:
    """Start the service again and wait until it knows that the attempt is gone."""
    bench.executor = bench.make()
    await bench.open()
    return await bench.gone(key)


@pytest.mark.parametrize("way", ["ends", "is paused", "is killed"])
async def test_what_forks_away_is_ended_before_the_attempt_is_gone(bench: LocalBench, way: str) -> None:
    then = "" if way == "ends" else "time.sleep(600)"
    spec = bench.code(FORKS_AWAY.format(more="", then=then), grace=0.5)
    await bench.executor.launch(spec)
    (hidden,) = await bench.pids("job")
    if way == "is paused":
        await bench.executor.pause(spec.key)
    elif way == "is killed":
        await bench.executor.kill(spec.key)
    ended = await bench.gone(spec.key)
    assert not alive(hidden)
    assert ended.exit is not None
    assert (ended.exit.code, ended.exit.signal) == ((0, None) if way == "ends" else (None, 9))


@pytest.mark.parametrize("program", ["exits with 0", "has no handler"])
async def test_the_end_of_a_job_with_its_machine_is_not_its_own(bench: LocalBench, program: str) -> None:
    """A machine that shuts down sends SIGTERM to every process, and so does `systemctl stop`."""
    handler = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n" if program == "exits with 0" else ""
    spec = bench.code(f"import os, signal, sys\n{handler}print(os.getpid(), flush=True)\n{SLEEPS}")
    await bench.executor.launch(spec)
    (worker,) = await bench.pids("job")
    for pid in (bench.supervisor(spec.key), worker):
        os.kill(pid, signal.SIGTERM)
    ended = (await bench.gone(spec.key)).exit
    assert ended is not None
    assert (ended.kind, ended.detail) == (ExitKind.EVICTED, "The machine was shutting down.")


async def test_nothing_survives_a_supervisor_that_is_killed(bench: LocalBench) -> None:
    clobber = "import ctypes; ctypes.CDLL(None).prctl(15, b'innocent')"
    text = FORKS_AWAY.format(more=clobber, then="os.write(1, b'%d\\n' % os.getpid()); time.sleep(600)")
    spec = bench.code(text)
    await bench.executor.launch(spec)
    pids = await bench.pids("job", 2)
    os.kill(bench.supervisor(spec.key), signal.SIGKILL)
    ended = await bench.gone(spec.key)
    assert not any(map(alive, pids))
    assert ended.exit is not None
    assert ended.exit.kind is ExitKind.LOST
    assert "supervisor" in ended.exit.detail


@pytest.mark.root
async def test_an_attempt_is_gone_only_when_what_was_killed_has_ended(bench: LocalBench) -> None:
    spec = bench.code(SLEEPS)
    await bench.executor.launch(spec)
    await bench.running(spec.key)
    with lingering({MARK: str(bench.directory(spec.key) / "pause")}) as pid:
        os.kill(bench.supervisor(spec.key), signal.SIGKILL)
        async with asyncio.timeout(PATIENCE_S):
            while not is_ending(pid):
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.3)  # it is looked for several times
        status = await bench.status(spec.key)
        assert status is not None
        assert status.phase is AttemptPhase.RUNNING
    await bench.gone(spec.key)
    assert not alive(pid)


async def test_a_process_that_wiped_its_environment_is_found_in_its_workers_session(bench: LocalBench) -> None:
    text = f"""{READY}
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    text = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    os.execve(sys.executable, [sys.executable, "-S", "-c", text], {{}})
time.sleep(600)
"""
    spec = bench.code(text)
    await bench.executor.launch(spec)
    (pid,) = await bench.pids("job")
    os.kill(bench.supervisor(spec.key), signal.SIGKILL)
    await bench.gone(spec.key)
    assert not alive(pid)


async def test_a_supervisor_killed_while_the_service_is_away_is_noticed_at_its_return(bench: LocalBench) -> None:
    spec = bench.code(FORKS_AWAY.format(more="", then="time.sleep(600)"))
    await bench.executor.launch(spec)
    (hidden,) = await bench.pids("job")
    await bench.running(spec.key, says=b"")
    await kill_supervisor_while_away(bench, spec.key)
    ended = await come_back(bench, spec.key)
    assert not alive(hidden)
    assert ended.exit is not None
    assert ended.exit.kind is ExitKind.LOST


async def test_the_pid_of_a_dead_supervisor_is_not_mistaken_for_it(bench: LocalBench) -> None:
    spec = bench.code(SLEEPS)
    await bench.executor.launch(spec)
    await bench.running(spec.key)
    await kill_supervisor_while_away(bench, spec.key, pid=os.getpid())
    ended = await come_back(bench, spec.key)
    assert ended.exit is not None
    assert ended.exit.kind is ExitKind.LOST


@pytest.fixture
def recorded_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Supervisors that record the run time ten times a second."""
    monkeypatch.setattr(launch, "RUN_TIME_INTERVAL", 0.1)


async def ran(bench: LocalBench, key: AttemptKey, seconds: float) -> None:
    """Wait until the attempt has recorded that it ran for so long."""
    async with asyncio.timeout(PATIENCE_S):
        while read_run_time(bench.directory(key)) < seconds:
            await asyncio.sleep(0.02)


@pytest.mark.usefixtures("recorded_often")
@pytest.mark.parametrize(
    ("recorded", "says"), [({"boot": "another"}, "restarted"), ({}, "supervisor was killed")], ids=["boot", "kill"]
)
async def test_what_was_lost_while_nobody_looked_ran_until_it_was_last_seen(
    bench: LocalBench, recorded: dict[str, str], says: str
) -> None:
    spec = bench.code(SLEEPS)
    await bench.executor.launch(spec)
    await bench.running(spec.key)
    await ran(bench, spec.key, 0.2)
    await kill_supervisor_while_away(bench, spec.key, **recorded)
    bench.options["now"] = lambda: time.time() + HOUR
    ended = await come_back(bench, spec.key)
    assert ended.exit is not None
    assert ended.exit.kind is ExitKind.LOST
    assert says in ended.exit.detail
    assert ended.exit.ran is not None
    assert 0.2 <= ended.exit.ran < PATIENCE_S


async def test_an_attempt_whose_first_seconds_were_not_recorded_ran_for_none(bench: LocalBench) -> None:
    spec = bench.code(SLEEPS)
    await bench.executor.launch(spec)
    await bench.running(spec.key)
    await kill_supervisor_while_away(bench, spec.key, boot="another")
    (bench.directory(spec.key) / "run_time").write_bytes(b"\0" * 20)
    ended = await come_back(bench, spec.key)
    assert ended.exit is not None
    assert ended.exit.ran == 0


async def test_a_clock_that_was_set_while_nobody_looked_moves_the_start_and_not_the_run_time(
    bench: LocalBench,
) -> None:
    spec = bench.code(SLEEPS)
    await bench.executor.launch(spec)
    await bench.running(spec.key)
    before = await bench.status(spec.key)
    bench.options["now"] = lambda: time.time() + HOUR
    await bench.restart()
    after = await bench.status(spec.key)
    assert before is not None
    assert after is not None
    assert before.started is not None
    assert after.started == pytest.approx(before.started + HOUR, abs=1)
    await bench.executor.kill(spec.key)
    ended = await bench.gone(spec.key)
    assert ended.exit is not None
    assert ended.exit.ran is not None
    assert 0 < ended.exit.ran < PATIENCE_S


async def test_processes_of_others_survive_the_search_for_leftovers(bench: LocalBench) -> None:
    another = bench.directory(AttemptKey("job", 2)) / "pause"
    env = {**os.environ, "SPRINGTIDE_JOB_ID": "job", "SPRINGTIDE_PAUSE_FILE": str(another)}
    with subprocess.Popen([sys.executable, "-S", "-c", SLEEPS], env=env, stdout=subprocess.DEVNULL) as other:
        spec = bench.code(SLEEPS)
        await bench.executor.launch(spec)
        await bench.running(spec.key)
        os.kill(bench.supervisor(spec.key), signal.SIGKILL)
        await bench.gone(spec.key)
        assert other.poll() is None
        other.kill()


async def test_code_that_ignores_everything_but_its_worker_group_still_pauses_as_a_whole(
    bench: LocalBench,
) -> None:
    spec = bench.code(STUBBORN, size=2, grace=0.2)
    await bench.executor.launch(spec)
    await bench.running(spec.key, rank=0)
    await bench.running(spec.key, rank=1)
    await bench.executor.pause(spec.key)
    ended = await bench.gone(spec.key)
    assert ended.exit is not None
    assert (ended.exit.signal, ended.exit.paused, ended.exit.killed) == (9, True, True)
