"""What a job and its supervisor find around them, and how much time and memory they may take."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from benches.executor_bench import READY, SLEEPS
from benches.local_bench import FORKS_AWAY, LocalBench
from machines.processes import alive
from msgspec.structs import replace

from springtide.scheduler.executors.accounts import Accounts
from springtide.scheduler.executors.base import ExecutorError, ExitKind, FoundProgram
from springtide.scheduler.executors.local.limits import Limits
from springtide.scheduler.model import Worker

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
    assert sorted(line.split(b"=")[0] for line in found if line) == [b"LANG", b"PATH", b"SPRINGTIDE_SUPERVISED"]
    assert b"MARK=job" not in found
    open_files = set()
    for path in Path(f"/proc/{bench.supervisor(spec.key)}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            open_files.add(str(path.readlink()))
    assert not any("sock" in name or "inotify" in name for name in open_files)


def library(name: str) -> Path:
    """Return the file of a shared library."""
    ctypes.CDLL(name)
    paths = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    return next(Path(path) for path in paths if path.endswith(f"/{name}"))


async def test_what_the_loader_is_told_to_load_is_loaded_into_the_job_alone(
    bench: LocalBench, tmp_path: Path
) -> None:
    trap = tmp_path / "trap"
    trap.mkdir()
    for name in ("preloaded.so", "libc.so.6", "libm.so.6"):
        shutil.copy(library("libm.so.6" if name == "preloaded.so" else name), trap / name)
    env = {"LD_PRELOAD": str(trap / "preloaded.so"), "LD_LIBRARY_PATH": str(trap), "GCONV_PATH": str(trap)}
    spec = bench.code(f"print(open('/proc/self/maps').read())\n{SLEEPS}", env=env)
    await bench.executor.launch(spec)
    await bench.running(spec.key)
    log = await bench.log("job")
    assert f"{trap}/preloaded.so" in log
    assert f"{trap}/libc.so.6" in log
    supervisor = Path(f"/proc/{bench.supervisor(spec.key)}")
    assert str(trap) not in (supervisor / "maps").read_text()
    assert str(trap).encode() not in (supervisor / "environ").read_bytes()


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


async def test_a_job_sees_the_limits_that_hold_for_it(tmp_path: Path) -> None:
    bench = LocalBench(tmp_path / "state", limits=Limits(memory=1 << 30, processes=3000))
    await bench.open()
    try:
        await bench.run(bench.spec(("bash", "-c", "ulimit -a")))
        told = {line.split("(")[0].strip(): line.split()[-1] for line in (await bench.log("job")).splitlines()}
        assert told["data seg size"] == str(1 << 20)
        assert told["max user processes"] == "3000"
        assert told["core file size"] == "0"
        [train] = [node for node in await bench.executor.inventory() if node.environment == "train"]
        assert train.limits.startswith("1 GiB of memory per process")
        assert train.limits.endswith("(rlimits)")
    finally:
        await bench.close()


async def test_a_job_that_takes_more_memory_than_it_may_fails(tmp_path: Path) -> None:
    bench = LocalBench(tmp_path / "state", limits=Limits(memory=256 << 20))
    await bench.open()
    try:
        ended = await bench.run(bench.code("x = bytearray(512 << 20)"))
        assert ended.exit is not None
        assert ended.exit.code == 1
        assert "MemoryError" in await bench.log("job")
    finally:
        await bench.close()


async def test_the_memory_that_a_job_asks_for_holds_for_it_in_place_of_the_default(tmp_path: Path) -> None:
    bench = LocalBench(tmp_path / "state", limits=Limits(memory=64 << 20))
    await bench.open()
    try:
        take = "import os; x = bytearray(300 << 20); print(os.environ['OMP_NUM_THREADS'])"
        more = await bench.run(bench.code(take, job="more", memory=1 << 30, cpus=2.5))
        less = await bench.run(bench.code(take, job="less", memory=256 << 20))
        assert more.exit is not None
        assert less.exit is not None
        assert (more.exit.code, less.exit.code) == (0, 1)
        assert await bench.log("more") == "2\n"
        assert "MemoryError" in await bench.log("less")
    finally:
        await bench.close()


@pytest.mark.root  # any other account may have processes besides the job's
async def test_a_job_that_starts_processes_without_end_leaves_the_machine_alone(tmp_path: Path) -> None:
    uid = 1_500_000_000 + os.getpid()  # the limit counts the account's processes of other tests, too
    bench = LocalBench(tmp_path, accounts=Accounts(tmp_path, (uid, uid)), limits=Limits(processes=20))
    await bench.open()
    try:
        code = """
import os, time
started = 0
try:
    while started < 100:
        if os.fork() == 0:
            time.sleep(600)
        started += 1
except BlockingIOError:
    print("refused after", started)
"""
        await bench.run(bench.code(code, user="susan"))
        assert await bench.log("job") == "refused after 19\n"
    finally:
        await bench.close()


async def test_a_directory_that_is_no_control_group_is_refused_at_start(tmp_path: Path) -> None:
    bench = LocalBench(tmp_path / "state", limits=Limits(memory=1 << 30, cgroup=tmp_path / "none"))
    with pytest.raises(ExecutorError, match=r"Springtide\.job_cgroup: .* is not a cgroup"):
        await bench.open()


async def test_a_control_group_that_cannot_hold_a_limit_is_refused_at_start(tmp_path: Path) -> None:
    group = tmp_path / "group"
    group.mkdir()
    (group / "cgroup.controllers").write_text("cpu pids\n")
    bench = LocalBench(tmp_path / "state", limits=Limits(memory=1 << 30, processes=9, cgroup=group))
    with pytest.raises(ExecutorError, match="lacks the controllers memory"):
        await bench.open()


def test_a_control_group_has_the_limits_of_all_workers_of_an_attempt(tmp_path: Path) -> None:
    limits = Limits(memory=1 << 30, processes=100, cores=1.5, cgroup=tmp_path)
    assert limits.files(2) == {
        "memory.max": str(2 << 30),
        "memory.oom.group": "1",
        "pids.max": "200",
        "cpu.max": "300000 100000",
    }
    assert limits.rlimits().keys() == {"RLIMIT_CORE"}
    assert limits.described(as_root=True) == (
        "1 GiB of memory per worker, 100 processes per worker, 1.5 cores per worker (cgroup)"
    )
    assert Limits(processes=100).described(as_root=True) == "none"


def test_a_control_group_has_what_a_job_asks_for_as_far_as_it_limits_that(tmp_path: Path) -> None:
    limits = Limits(memory=1 << 30, cores=1.5, cgroup=tmp_path)
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory pids\n")
    assert limits.of_job(4.0, 3 << 30).files(2) == {
        "memory.max": str(6 << 30),
        "memory.oom.group": "1",
        "cpu.max": "800000 100000",
    }
    assert limits.of_job(0.0, 0) == limits
    (tmp_path / "cgroup.subtree_control").write_text("pids\n")
    asked = Limits(cgroup=tmp_path).of_job(4.0, 3 << 30)
    assert asked.files(2) == {}
    assert asked.rlimits()["RLIMIT_DATA"] == (3 << 30, 3 << 30)
    assert Limits().of_job(4.0, 3 << 30).rlimits()["RLIMIT_DATA"] == (3 << 30, 3 << 30)


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A control group of version 2 for the tests."""
    parent = next((place for place in CGROUPS if os.access(place / "cgroup.procs", os.W_OK)), None)
    if parent is None:
        pytest.fail("no cgroup of version 2 may be used here: run as root, or leave out with -m 'not root'", False)
    made = parent / f"springtide-test-{os.getpid()}"
    yield made
    made.rmdir()


@pytest.mark.root
async def test_a_control_group_that_was_delegated_holds_the_job(tmp_path: Path, cgroup: Path) -> None:
    bench = LocalBench(tmp_path / "state", limits=Limits(cgroup=cgroup))
    await bench.open()
    spec = bench.code(FORKS_AWAY.format(more="print(open('/proc/self/cgroup').read())", then="time.sleep(600)"))
    await bench.executor.launch(spec)
    (pid,) = await bench.pids("job")
    assert "job.1" in await bench.log("job")
    await bench.executor.pause(spec.key)
    await bench.executor.kill(spec.key)
    await bench.gone(spec.key)
    assert not alive(pid)
    assert not (cgroup / "job.1").exists()
    await bench.close()


@pytest.mark.root
async def test_nothing_leaves_its_control_group_by_killing_the_supervisor(tmp_path: Path, cgroup: Path) -> None:
    bench = LocalBench(tmp_path / "state", limits=Limits(cgroup=cgroup))
    await bench.open()
    hide = "os.write(1, b'%d\\n' % os.getpid()); os.write(tell, b'.'); os.setsid(); "
    hide += "os.execve('/bin/sleep', ['sleep', '600'], {})"
    spec = bench.code(FORKS_AWAY.format(more=hide, then="time.sleep(600)"))
    await bench.executor.launch(spec)
    (daemon,) = await bench.pids("job")
    await bench.until(lambda: Path(f"/proc/{daemon}/environ").read_bytes() == b"", "a daemon without a mark")
    os.kill(bench.supervisor(spec.key), signal.SIGKILL)
    ended = await bench.gone(spec.key)
    assert ended.exit is not None
    assert ended.exit.kind is ExitKind.LOST
    assert not alive(daemon)
    assert not (cgroup / "job.1").exists()
    await bench.close()


async def test_a_control_group_that_is_taken_away_blocks_the_job(tmp_path: Path) -> None:
    group = tmp_path / "group"
    group.mkdir()
    (group / "cgroup.controllers").write_text("")
    bench = LocalBench(tmp_path / "state", limits=Limits(cgroup=group))
    await bench.open()
    shutil.rmtree(group)
    ended = await bench.run(bench.code("pass"))
    assert ended.exit is not None
    assert ended.exit.kind is ExitKind.BLOCKED
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


# ---------- the environment of the submission


def shows(*names: str) -> str:
    return f"import os; print(*(os.environ.get(name) for name in {names}))"


async def test_the_program_and_the_variables_found_at_the_submission_count(
    bench: LocalBench, tmp_path: Path
) -> None:
    venv = tmp_path / "venv" / "bin"
    venv.mkdir(parents=True)
    (venv / "python").symlink_to(sys.executable)
    found = FoundProgram(str(venv / "python"), "", {"PATH": f"{venv}:/bin", "VIRTUAL_ENV": "/venv"})
    show = shows("PATH", "VIRTUAL_ENV") + "; import sys; print(sys.executable)"
    spec = bench.spec(("python", "-c", show), env={"VIRTUAL_ENV": "own"})
    ended = await bench.run(replace(spec, found=found))
    assert ended.exit is not None
    assert await bench.log("job") == f"{venv}:/bin own\n{venv}/python\n", "variables of the job itself come last"


async def test_a_job_starts_as_many_threads_as_its_part_of_the_machine_has_cores(bench: LocalBench) -> None:
    bench.executor._launcher = dataclasses.replace(bench.executor._launcher, cores=44.0)
    threads = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    place = (Worker(0, bench.train_node, (0, 1, 2)),)
    ended = await bench.run(bench.code(shows(*threads), placement=place, env={"MKL_NUM_THREADS": "5"}))
    assert ended.exit is not None
    assert await bench.log("job") == "4 5 4 4\n", "one process on each of its GPUs"
    await bench.run(bench.code(shows(*threads), job="asked", cpus=4))
    assert await bench.log("asked") == "4 4 4 4\n"


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("{place}/gone", "“{place}/gone” is not there any more. Install it again"),
        ("{place}/moved", "“{place}/moved” cannot be run: the interpreter that it names is not there."),
        ("{place}/closed", "“{place}/closed” cannot be run: Permission denied."),
        ("unknown", "“unknown” is not on the PATH of the job."),
    ],
)
async def test_a_program_that_cannot_be_run_any_more_is_said_why(
    bench: LocalBench, tmp_path: Path, program: str, why: str
) -> None:
    (tmp_path / "moved").write_text("#!/nowhere/python\n")
    (tmp_path / "moved").chmod(0o755)
    (tmp_path / "closed").write_text("")
    path = program.format(place=tmp_path)
    found = FoundProgram(path if path.startswith("/") else "", "", {"PATH": "/bin"})
    ended = await bench.run(replace(bench.spec(("program",) if found.path else (path,)), found=found))
    assert ended.exit is not None
    assert ended.exit.kind is ExitKind.REFUSED
    assert f"The program {why.format(place=tmp_path)}" in ended.exit.detail
