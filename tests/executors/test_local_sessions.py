"""Programs that are run inside attempts of this machine."""

from __future__ import annotations

import asyncio
import os
import pwd
import select
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from benches.executor_bench import SAVES, SLEEPS, STUBBORN
from benches.local_bench import LocalBench, account_bench, dead
from machines.processes import alive
from patience import PATIENCE_S

from springtide.scheduler.executors.base import AttemptKey, AttemptSpec, ExecutorError, ExitKind, ProgramError
from springtide.scheduler.executors.local import sessions as local_sessions
from springtide.scheduler.executors.local.limits import Limits
from springtide.scheduler.executors.session import Session, SessionSpec, Stream
from springtide.scheduler.executors.supervisor.sessions import Sessions, named_prompt
from springtide.scheduler.wire.sessions import SessionEnd, TerminalSize

pytestmark = pytest.mark.process
SIZE = TerminalSize(columns=80, rows=24)
AWAY = """
import os, time
os.fork() and os._exit(0)
os.setsid()
print("", os.getpid(), "away", flush=True)
time.sleep(600)
"""
"""Program that leaves the session it was started in, and prints its pid."""


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a supervisor answers late; what it answers is what counts here."""
    monkeypatch.setattr(local_sessions, "ANSWERS_WITHIN", PATIENCE_S)


@pytest.fixture
async def bench(tmp_path) -> AsyncIterator[LocalBench]:
    bench = LocalBench(tmp_path / "state")
    await bench.open()
    yield bench
    await bench.close()


async def started(bench: LocalBench, text: str = SLEEPS, **more: Any) -> AttemptSpec:
    spec = bench.code(text, **more)
    await bench.executor.launch(spec)
    for rank in range(spec.workers):
        await bench.running(spec.key, rank=rank)
    return spec


async def opened(
    bench: LocalBench, spec: AttemptSpec, *argv: str, rank: int = 0, size: TerminalSize | None = None
) -> Session:
    return await bench.executor.open_session(spec.key, SessionSpec(rank, argv, terminal=size))


async def output(session: Session) -> tuple[str, str, SessionEnd | None]:
    """Read a session to its end; return its output, its errors, and the end."""
    found = {Stream.OUTPUT: b"", Stream.ERRORS: b""}
    async with asyncio.timeout(PATIENCE_S):
        while (piece := await session.read()) is not None:
            found[piece[0]] += piece[1]
    await session.close()
    return found[Stream.OUTPUT].decode(), found[Stream.ERRORS].decode(), session.end


def state_of(pid: int) -> str:
    """Return the state of a process; S: it sleeps, as when it cannot write."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def until(session: Session, text: str) -> str:
    """Read the output until it contains a text."""
    found = ""
    async with asyncio.timeout(PATIENCE_S):
        while text not in found:
            piece = await session.read()
            assert piece is not None, f"{text!r} never came: {found!r} {session.end}"
            found += piece[1].decode()
    return found


async def shell(bench: LocalBench, spec: AttemptSpec, text: str, **more: Any) -> str:
    said, errors, end = await output(await opened(bench, spec, "sh", "-c", text, **more))
    assert end == SessionEnd(code=0), errors
    return said


async def test_a_command_has_the_place_the_variables_and_the_gpus_of_its_worker(bench: LocalBench) -> None:
    prints = (
        "import os, sys; print(os.getcwd(), os.environ['CUDA_VISIBLE_DEVICES'], os.environ['MINE'], flush=True)"
    )
    spec = await started(bench, f"{prints}\n{SLEEPS}", size=2, env={"MINE": "yes"})
    for rank in (0, 1):
        wanted = (await bench.log("job", rank)).splitlines()[0]
        assert (await shell(bench, spec, "echo $PWD $CUDA_VISIBLE_DEVICES $MINE", rank=rank)).strip() == wanted
        assert (await shell(bench, spec, "echo $RANK", rank=rank)).strip() == str(rank)


async def test_a_shell_of_a_test_reads_no_start_up_files_of_the_person_who_runs_it(bench: LocalBench) -> None:
    spec = await started(bench)
    home, *files = (await shell(bench, spec, "cd && pwd && ls -A")).split()
    assert home == os.environ["HOME"] != pwd.getpwuid(os.getuid()).pw_dir
    assert not {".bashrc", ".bash_profile", ".profile"} & set(files)


async def test_more_output_than_anyone_reads_waits_in_the_program(bench: LocalBench) -> None:
    spec = await started(bench)
    session = await opened(bench, spec, "sh", "-c", "echo $$; exec yes")
    pid = int((await until(session, "\n")).split()[0])
    async with asyncio.timeout(PATIENCE_S):
        while state_of(pid) != "S":
            await asyncio.sleep(0.02)
    await session.close()
    await dead(pid)


@pytest.mark.parametrize("code", [0, 3])
async def test_a_job_that_ends_after_a_session_has_ended_by_itself(
    bench: LocalBench, tmp_path: Path, code: int
) -> None:
    """A supervisor that is asked for a session is not told that its machine shuts down."""
    waits = f"while not os.path.exists({str(tmp_path / 'end')!r}): time.sleep(0.01)"
    spec = await started(bench, f"import os, sys, time\nprint('ready', flush=True)\n{waits}\nsys.exit({code})")
    await shell(bench, spec, "true")
    (tmp_path / "end").touch()
    ended = (await bench.gone(spec.key)).exit
    assert ended is not None
    assert (ended.kind, ended.code) == (ExitKind.EXITED, code)


async def test_a_session_ends_with_the_attempt_and_does_not_delay_it(bench: LocalBench) -> None:
    writes = f"open('away.py', 'w').write({AWAY!r})\n"
    spec = await started(bench, writes + SAVES.format(code=75))
    session = await opened(bench, spec, "bash", "--norc", size=SIZE)
    await session.write(f"trap '' HUP TERM; {bench.python} -S away.py & sleep 600\n".encode())
    said = await until(session, "away\r\n")
    pid = int(said.split()[-2])
    assert alive(pid)
    await bench.executor.pause(spec.key)
    ended = await bench.gone(spec.key)
    assert ended.exit is not None
    assert (ended.exit.code, ended.exit.paused, ended.exit.killed) == (75, True, False)
    assert not alive(pid)
    assert (await output(session))[2] is not None


async def test_a_session_ends_with_an_attempt_that_is_killed(bench: LocalBench) -> None:
    spec = await started(bench, STUBBORN)
    session = await opened(bench, spec, "sh", "-c", "trap '' HUP TERM; echo $$; while :; do sleep 600; done")
    pid = int(await until(session, "\n"))
    await bench.executor.kill(spec.key)
    await bench.gone(spec.key)
    assert not alive(pid)
    assert (await output(session))[2] is not None


async def test_what_cannot_be_run_is_refused_in_words(bench: LocalBench, tmp_path: Path) -> None:
    spec = await started(bench)
    script = tmp_path / "script"
    script.write_text("#!/no/interpreter\n")
    script.chmod(0o755)
    for argv, why, code in (
        (("no-such-program",), "no program “no-such-program” on the PATH", 127),
        (("/no/such",), "no program “/no/such” where the job runs", 127),
        (("/etc/passwd",), "cannot be run: Permission denied", 126),
        ((str(script),), "cannot be run: the interpreter that it names is not there", 126),
    ):
        with pytest.raises(ProgramError, match=why) as raised:
            await opened(bench, spec, *argv)
        assert raised.value.exit_code == code
    with pytest.raises(ExecutorError, match="Worker 7 of the job does not run"):
        await opened(bench, spec, "true", rank=7)
    with pytest.raises(ExecutorError, match="does not run"):
        await bench.executor.open_session(AttemptKey("other", 1), SessionSpec(0, ("true",)))
    await bench.executor.kill(spec.key)
    await bench.gone(spec.key)
    with pytest.raises(ExecutorError, match="does not run"):
        await opened(bench, spec, "true")


def test_a_program_that_takes_long_to_start_does_not_hold_up_its_supervisor(tmp_path: Path) -> None:
    """As in a directory on a dead file server: the supervisor has to hear requests to pause meanwhile."""
    poll = select.poll()
    trouble, its_trouble = os.pipe()
    found = Sessions(poll, lambda *_: (os.getpid(), trouble), lambda _: {})
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "session.1"))
        listener.listen()
        found.connect(str(tmp_path))
        service, _ = listener.accept()
    service.sendall(b'{"rank": 0, "argv": ["slow"], "terminal": null, "variables": {}}\n')
    ((connection, _),) = poll.poll(1000)
    assert found.heard(connection)
    assert poll.poll(0) == []
    os.close(its_trouble)
    ((file, _),) = poll.poll(1000)
    assert (file, found.heard(file)) == (trouble, True)
    line, files, _, _ = socket.recv_fds(service, 100, 4)
    assert (line, len(files)) == (b'{"started": true}\n', 3)
    assert found.ended(os.getpid(), 0)
    for each in files:
        os.close(each)
    service.close()


async def test_many_sessions_at_a_time_and_no_more_than_the_most(bench: LocalBench) -> None:
    spec = await started(bench)
    sessions = [await opened(bench, spec, "cat") for _ in range(64)]
    with pytest.raises(ExecutorError, match="64 terminals and commands already"):
        await opened(bench, spec, "cat")
    await asyncio.gather(*(session.close() for session in sessions))
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                assert await shell(bench, spec, "echo again") == "again\n"
            except ExecutorError:
                await asyncio.sleep(0.05)
            else:
                break
    assert not list(bench.directory(spec.key).glob("session.*"))


async def test_the_limits_of_the_job_hold_in_a_session(tmp_path) -> None:
    bench = LocalBench(tmp_path / "state", limits=Limits(process_memory=1 << 30))
    await bench.open()
    try:
        spec = await started(bench)
        assert await shell(bench, spec, "ulimit -d") == f"{(1 << 30) // 1024}\n"
    finally:
        await bench.close()


@pytest.mark.root
async def test_a_session_has_the_rights_of_the_jobs_user_and_no_others() -> None:
    async with account_bench() as bench:
        spec = bench.spec(("sh", "-c", "echo ready; exec sleep 600"), user="no-such-account-susan")
        await bench.executor.launch(spec)
        await bench.running(spec.key)
        worker = await shell(bench, spec, "ps -o uid= -p $PPID; id -u; id -G; grep NoNewPrivs /proc/self/status")
        supervisor, uid, groups, forbids = worker.splitlines()
        assert supervisor.strip() == "0"
        assert int(uid) >= 1000
        assert groups == uid
        assert forbids.split()[1] == "1"
        denied = "cat $(dirname $SPRINGTIDE_PAUSE_FILE)/spec.json 2>/dev/null || echo denied"
        assert await shell(bench, spec, denied) == "denied\n"
        session = await opened(bench, spec, "sh", "-c", "exec 3<>$(tty) && echo own >&3", size=SIZE)
        assert (await output(session))[0] == "own\r\n"


@pytest.mark.parametrize(("user", "said"), [({"USER": "susan"}, "susan@h"), ({}, "user@h")])
def test_the_prompt_of_an_account_without_an_entry_has_a_name_of_its_own(user: dict[str, str], said: str) -> None:
    variables = named_prompt(user, 2**31 - 2)
    words = ["bash", "-c", 'PS1="\\u@h"; eval "$PROMPT_COMMAND"; echo "$PS1${PROMPT_COMMAND-}"']
    done = subprocess.run(
        words, env={"PATH": os.defpath, **user, **variables}, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{said}\n"
    assert named_prompt(user, 0) == {}


async def test_the_prompt_names_the_user_of_an_account_that_has_only_a_number() -> None:
    async with account_bench() as bench:
        spec = bench.spec(("sh", "-c", "echo ready; exec sleep 600"), user="no-such-account-susan")
        await bench.executor.launch(spec)
        await bench.running(spec.key)
        named = await opened(
            bench, spec, "bash", "-c", 'PS1="\\u@\\h"; eval "$PROMPT_COMMAND"; echo "$PS1"', size=SIZE
        )
        assert (await output(named))[0] == "no-such-account-susan@\\h\r\n"
