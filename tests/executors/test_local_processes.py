"""What happens to real processes, however they are killed and wherever they hide."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from executor_bench import PATIENCE, READY, SAVES, SLEEPS, STUBBORN
from local_bench import LocalBench, alive, dead

from springtide.scheduler.executors.base import AttemptKey, AttemptPhase, ExecutorError, ExitKind, LogGrew
from springtide.scheduler.executors.files.layout import opened
from springtide.scheduler.executors.local import LocalExecutor
from springtide.scheduler.executors.local.launch import PROGRAM
from springtide.scheduler.executors.supervisor.records import take_lock
from springtide.scheduler.telemetry import discover

CGROUPS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
FORKS_AWAY = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        {more}
        os.write(1, b"%d\\n" % os.getpid())
        time.sleep(600)
    os._exit(0)
os.wait()
{then}
"""


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[LocalBench]:
    bench = LocalBench(tmp_path / "state", log_cap=64 * 1024)
    await bench.open()
    yield bench
    await bench.close()


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
    await bench.executor.stop()
    supervisor = bench.supervisor(spec.key)
    os.kill(supervisor, signal.SIGKILL)
    await dead(supervisor)
    bench.executor = bench.make()
    await bench.open()
    ended = await bench.gone(spec.key)
    assert not alive(hidden)
    assert ended.exit is not None
    assert ended.exit.kind is ExitKind.LOST


async def test_the_pid_of_a_dead_supervisor_is_not_mistaken_for_it(bench: LocalBench) -> None:
    spec = bench.code(SLEEPS)
    await bench.executor.launch(spec)
    await bench.running(spec.key)
    await bench.executor.stop()
    supervisor = bench.supervisor(spec.key)
    os.kill(supervisor, signal.SIGKILL)
    await dead(supervisor)
    path = bench.directory(spec.key) / "supervisor.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "pid": os.getpid()}))
    bench.executor = bench.make()
    await bench.open()
    ended = await bench.gone(spec.key)
    assert ended.exit is not None
    assert ended.exit.kind is ExitKind.LOST


async def test_what_ran_before_the_machine_was_restarted_is_lost(bench: LocalBench) -> None:
    spec = bench.code(SLEEPS)
    await bench.executor.launch(spec)
    await bench.running(spec.key)
    await bench.executor.stop()
    supervisor = bench.supervisor(spec.key)
    path = bench.directory(spec.key) / "supervisor.json"
    record = path.read_text()
    os.kill(supervisor, signal.SIGKILL)
    await dead(supervisor)
    path.write_text(json.dumps({**json.loads(record), "boot": "another"}))
    bench.executor = bench.make()
    await bench.open()
    ended = await bench.gone(spec.key)
    assert ended.exit is not None
    assert ended.exit.kind is ExitKind.LOST
    assert "restarted" in ended.exit.detail


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


async def test_an_attempt_never_runs_twice_however_many_supervisors_start(bench: LocalBench) -> None:
    spec = bench.code(SLEEPS)
    await bench.executor.launch(spec)
    command = [sys.executable, "-I", "-S", str(PROGRAM), str(bench.directory(spec.key))]
    others = [await asyncio.create_subprocess_exec(*command) for _ in range(4)]
    await bench.running(spec.key)
    os.kill(bench.supervisor(spec.key), signal.SIGKILL)
    await bench.gone(spec.key)
    late = await asyncio.create_subprocess_exec(*command)
    async with asyncio.timeout(PATIENCE):
        for each in (*others, late):
            await each.wait()
    assert (await bench.log("job")).split() == ["ready"]


async def test_a_supervisor_that_another_started_is_followed(bench: LocalBench) -> None:
    spec = bench.code(SLEEPS)
    directory = bench.directory(spec.key)
    await asyncio.to_thread(bench.executor._order, spec, directory)
    first = await asyncio.create_subprocess_exec(sys.executable, "-I", "-S", str(PROGRAM), str(directory))
    await bench.executor.launch(spec)
    await bench.running(spec.key)
    await bench.executor.pause(spec.key)
    ended = await bench.gone(spec.key)
    assert ended.exit is not None
    assert ended.exit.paused
    async with asyncio.timeout(PATIENCE):
        await first.wait()
    assert (await bench.log("job")).split() == ["ready"]


async def test_a_launch_that_was_cut_short_is_completed_at_the_return(bench: LocalBench) -> None:
    spec = bench.code(SAVES.format(code=75))
    executor = bench.make()
    directory = bench.directory(spec.key)
    await asyncio.to_thread(executor._order, spec, directory)
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
    await asyncio.to_thread(bench.executor._order, spec, bench.directory(spec.key))
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


async def test_a_log_keeps_its_end_and_says_what_it_dropped(bench: LocalBench) -> None:
    spec = bench.code("for n in range(60000): print(f'{n:09d}')")
    await bench.run(spec)
    kept = sum(path.stat().st_size for path in bench.directory(spec.key).glob("log.*"))
    assert kept <= 64 * 1024
    piece = await bench.executor.read_log("job", 0, 0, 1 << 20)
    assert piece.size == 600000
    assert piece.data.decode().startswith(f"… {piece.offset} bytes dropped …\n")
    text = await bench.log("job")
    assert len(text.encode()) == 600000 - piece.offset
    assert text.endswith("000059999\n")
    assert bench.of_kind(LogGrew)[-1].size == 600000
    tail = await bench.executor.read_log("job", 0, -20, 100)
    assert tail.data == b"000059998\n000059999\n"


async def test_a_worker_that_prints_without_end_stays_killable(bench: LocalBench) -> None:
    spec = bench.code(f"{READY}\nwhile True: print('x' * 1000)", grace=0.2)
    await bench.executor.launch(spec)
    await bench.until(lambda: [each for each in bench.of_kind(LogGrew) if each.size > 1 << 18], "a long log")
    await bench.executor.pause(spec.key)
    await bench.gone(spec.key)
    assert sum(path.stat().st_size for path in bench.directory(spec.key).glob("log.*")) <= 64 * 1024


async def test_a_job_outlives_a_full_disk_and_its_end_is_recorded_when_there_is_room(bench: LocalBench) -> None:
    spec = bench.code(f"{READY}\nimport pathlib\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)")
    await bench.executor.launch(spec)
    await bench.running(spec.key)
    supervisor = bench.supervisor(spec.key)
    _, hard = resource.prlimit(supervisor, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    (bench.state / "jobs" / "job" / "work" / "go").touch()
    beside = bench.directory(spec.key) / "exit.json"
    await asyncio.sleep(0.3)
    assert alive(supervisor)
    assert not beside.exists()
    resource.prlimit(supervisor, resource.RLIMIT_FSIZE, (hard, hard))
    ended = await bench.gone(spec.key)
    assert ended.exit is not None
    assert ended.exit.code == 0


async def test_a_launch_onto_a_full_disk_is_an_error_and_can_be_repeated(bench: LocalBench) -> None:
    spec = bench.code("print('ran')", files={"data": b"x" * 100_000})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(ExecutorError, match="could not be put on disk"):
            await bench.executor.launch(spec)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert await bench.executor.attempts() == ()
    ended = await bench.run(spec)
    assert ended.exit is not None
    assert ended.exit.code == 0


async def test_bytes_that_a_full_disk_did_not_take_are_counted_in_the_log(tmp_path: Path) -> None:
    text = f"""
import os, resource, signal, sys
sys.path.append({str(PROGRAM.parent)!r})
from supervisor.log import Log
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
log = Log(os.open({str(tmp_path)!r}, os.O_RDONLY), 0, 1 << 20)
log.write(b"a" * 150)
log.write(b"b" * 50)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log.write(b"c")
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", text)
    assert await process.wait() == 0
    assert (tmp_path / "log.0").read_text() == "a" * 100 + "\n… 100 bytes dropped: the disk was full …\nc"


async def test_the_supervisor_reads_nothing_that_the_job_brought(bench: LocalBench, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.mkdir()
    for name in ("json.py", "os.py", "sitecustomize.py", "supervisor.py"):
        (trap / name).write_text(f"open({str(trap / 'sprung')!r}, 'w')")
    env = {"PYTHONPATH": str(trap), "PYTHONHOME": "", "PATH": f"{trap}:/usr/bin", "MARK": "job"}
    spec = bench.code(SLEEPS, env=env, cwd=str(trap))
    await bench.executor.launch(spec)
    await bench.running(spec.key, says=b"")
    found = Path(f"/proc/{bench.supervisor(spec.key)}/environ").read_bytes().split(b"\0")
    assert sorted(line.split(b"=")[0] for line in found if line) == [b"LANG", b"PATH"]
    assert b"MARK=job" not in found
    open_files = {str(path.readlink()) for path in Path(f"/proc/{bench.supervisor(spec.key)}/fd").iterdir()}
    assert not any("sock" in name or "inotify" in name for name in open_files)


async def test_a_job_inherits_nothing_of_the_service(bench: LocalBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "secret")
    secret = os.open("/etc/hostname", os.O_RDONLY)
    os.set_inheritable(secret, True)
    try:
        text = "import os; fd = '/proc/self/fd'; print(sorted(os.listdir(fd))[:-1], os.environ)"
        text += "; print(os.readlink(fd + '/0'))"
        await bench.run(bench.code(text))
    finally:
        os.close(secret)
    log = await bench.log("job")
    assert log.startswith("['0', '1', '2']")
    assert "secret" not in log
    assert "/dev/null" in log


async def test_limits_hold_for_the_job(tmp_path: Path) -> None:
    bench = LocalBench(tmp_path / "state", limits={"RLIMIT_NOFILE": (64, 64)})
    await bench.open()
    await bench.run(bench.code("import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))"))
    assert await bench.log("job") == "(64, 64)\n"
    await bench.close()


async def test_a_control_group_that_was_delegated_holds_the_job(tmp_path: Path) -> None:
    parent = next((place for place in CGROUPS if os.access(place / "cgroup.procs", os.W_OK)), tmp_path / "missing")
    cgroup = parent / f"springtide-test-{os.getpid()}"
    with contextlib.suppress(FileNotFoundError):
        cgroup.mkdir()
    bench = LocalBench(tmp_path / "state", cgroup=cgroup)
    await bench.open()
    spec = bench.code(FORKS_AWAY.format(more="print(open('/proc/self/cgroup').read())", then="time.sleep(600)"))
    await bench.executor.launch(spec)
    if cgroup.exists():
        (pid,) = await bench.pids("job")
        assert "job.1" in await bench.log("job")
        await bench.executor.pause(spec.key)
        await bench.executor.kill(spec.key)
        await bench.gone(spec.key)
        assert not alive(pid)
        assert not (cgroup / "job.1").exists()
        cgroup.rmdir()
    else:
        ended = await bench.gone(spec.key)
        assert ended.exit is not None
        assert ended.exit.kind is ExitKind.REFUSED
        assert "control group" in ended.exit.detail
    await bench.close()


async def test_a_supervisor_is_small(bench: LocalBench) -> None:
    spec = bench.code(SLEEPS)
    await bench.executor.launch(spec)
    await bench.running(spec.key)
    status = Path(f"/proc/{bench.supervisor(spec.key)}/status").read_text()
    resident = int(status.split("VmRSS:")[1].split()[0])
    assert resident < 16 * 1024


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


async def test_a_gang_may_save_for_its_whole_grace_when_one_asks_to_run_again(bench: LocalBench) -> None:
    text = f"""{READY}
import pathlib
set_up = pathlib.Path("set-up")
if os.environ["RANK"] == "1":
    while not set_up.exists(): time.sleep(0.01)
    sys.exit(75)
def save(*_):
    print("saving", flush=True)
    time.sleep(0.2)
    print("saved", flush=True)
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
set_up.touch()
time.sleep(600)
"""
    spec = bench.code(text, size=2)
    ended = await bench.run(spec)
    assert ended.exit is not None
    assert (ended.exit.code, ended.exit.paused, ended.exit.killed) == (75, False, False)
    assert (await bench.log("job")).endswith("saving\nsaved\n")


async def test_links_in_the_place_of_the_jobs_files_lead_nowhere(bench: LocalBench, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"step": 1}\n' * 3)
    await bench.run(bench.code("pass"))
    job = bench.state / "jobs" / "job"
    for name in ("reports.jsonl", "attempts/1/log.0"):
        (job / name).unlink()
        (job / name).symlink_to(secret)
    (job / "output").rmdir()
    (job / "output").symlink_to(tmp_path)
    assert await bench.executor.read_reports("job", 0, 10) == ()
    with pytest.raises(ExecutorError, match="not a plain file"):
        await bench.executor.read_log("job", 0, 0, 10)
    with pytest.raises(ExecutorError):
        await bench.executor.read_output("job", "secret", 1000)
    assert AttemptKey("job", 1) in {status.key for status in await bench.executor.attempts()}


async def test_an_executor_that_could_not_start_can_be_stopped(tmp_path: Path) -> None:
    (tmp_path / "jobs").write_text("not a directory")
    executor = LocalExecutor(tmp_path, discover(2, 1))
    with pytest.raises((ExecutorError, OSError)):
        await executor.start(lambda _: None)
    await executor.stop()
