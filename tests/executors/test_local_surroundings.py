"""What a job and its supervisor find around them, and how much time and memory they may take."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from executor_bench import READY, SLEEPS
from local_bench import FORKS_AWAY, LocalBench
from processes import alive

from springtide.scheduler.executors.base import ExitKind

CGROUPS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))


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
    open_files = set()
    for path in Path(f"/proc/{bench.supervisor(spec.key)}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            open_files.add(str(path.readlink()))
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
