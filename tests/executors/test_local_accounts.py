"""Jobs as their users' own accounts."""

from __future__ import annotations

import os
import pwd
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from benches.executor_bench import read_output
from benches.local_bench import LocalBench, account_bench
from msgspec.structs import replace

from springtide.scheduler.executors.accounts import DEFAULT_UIDS, Accounts
from springtide.scheduler.executors.accounts.account import closed_ways
from springtide.scheduler.executors.base import ExecutorError, ExitKind, FoundProgram
from springtide.scheduler.executors.environment import job_environment
from springtide.scheduler.executors.files.layout import JobPlaces
from springtide.scheduler.executors.files.plain import write_tree
from springtide.scheduler.model import Block, BlockScope

pytestmark = pytest.mark.root

SOMEBODY = "nobody"
TELLS = "env; cat /proc/self/status; echo cwd:\t$(pwd)"
WAITS = "trap 'exit 75' TERM; echo ready; while :; do sleep 0.05; done"


@pytest.fixture
async def bench() -> AsyncIterator[LocalBench]:
    async with account_bench() as bench:
        yield bench


async def test_a_job_has_the_rights_of_its_user_and_no_others(bench: LocalBench) -> None:
    entry = pwd.getpwnam(SOMEBODY)
    ended = await bench.run(bench.spec(("sh", "-c", TELLS), user=SOMEBODY))
    assert ended.exit is not None
    assert ended.exit.code == 0, ended.exit.detail
    log = (await bench.log("job")).splitlines()
    said = dict(line.split(":", 1) for line in log if ":" in line)
    assert said["Uid"].split() == [str(entry.pw_uid)] * 4
    assert said["Gid"].split() == [str(entry.pw_gid)] * 4
    assert "0" not in said["Groups"].split()
    assert said["NoNewPrivs"].split() == ["1"]
    assert {f"USER={SOMEBODY}", f"HOME={entry.pw_dir}"} <= set(log)
    assert said["cwd"].endswith("/jobs/job/work")


async def test_a_job_reaches_its_own_files_and_not_the_pools(bench: LocalBench) -> None:
    text = """
attempt=$(dirname $SPRINGTIDE_PAUSE_FILE)
echo mine > $SPRINGTIDE_CHECKPOINT_DIR/x; echo mine > $SPRINGTIDE_OUTPUT_DIR/result; echo mine > here
echo '{"step": 1}' >> $SPRINGTIDE_REPORT
test -e $SPRINGTIDE_PAUSE_FILE || echo "no pause"
cat {code}/main.py
for act in "echo > $attempt/exit.json" "cat $attempt/spec.json" "cat $attempt/log.0" "ls $attempt" \\
    "ls $attempt/../../.." "echo > $SPRINGTIDE_PAUSE_FILE" "rm -f $SPRINGTIDE_REPORT" \\
    "mv $SPRINGTIDE_OUTPUT_DIR $SPRINGTIDE_OUTPUT_DIR.2"
do
    sh -c "$act" 2> /dev/null && echo allowed: $act || echo denied
done
"""
    ended = await bench.run(bench.spec(("sh", "-c", text), user=SOMEBODY, files={"main.py": b"code\n"}))
    assert ended.exit is not None
    assert await bench.log("job") == "no pause\ncode\n" + "denied\n" * 8
    assert await read_output(bench.executor, "job", "result", 10) == b"mine\n"
    assert [report.step for report in await bench.executor.read_reports("job", 0, 10)] == [1]


async def test_a_job_that_another_person_has_now_reaches_its_files_at_its_next_attempt(bench: LocalBench) -> None:
    (bench.state / "secret").write_text("root's")
    in_each = "for place in . $SPRINGTIDE_CHECKPOINT_DIR $SPRINGTIDE_OUTPUT_DIR; do"
    writes = (
        f"{in_each} mkdir $place/in; echo mine > $place/in/x; "
        f"ln -s {bench.state / 'secret'} $place/link; done; chmod -R go= .; "
        "echo '{\"step\": 1}' >> $SPRINGTIDE_REPORT"
    )
    reads = (
        f"{in_each} cat $place/in/x; echo y > $place/in/x; "
        "done; cat {code}/main.py; echo '{\"step\": 2}' >> $SPRINGTIDE_REPORT"
    )
    files = {"main.py": b"code\n"}
    await bench.run(bench.spec(("sh", "-c", writes), user=SOMEBODY, files=files))
    ended = await bench.run(bench.spec(("sh", "-c", reads), user="another person", attempt=2))
    assert ended.exit is not None
    assert ended.exit.code == 0, (ended.exit.detail, await bench.log("job"))
    assert await bench.log("job") == "mine\n" * 3 + "code\n"
    reports = await bench.executor.read_reports("job", 0, 10)
    assert [report.step for report in reports if not report.began_without] == [1, 2]
    found = (bench.state / "jobs/job/work").rglob("*")
    owners = {path.lstat().st_uid for path in found if not path.is_symlink()}
    assert owners == {(bench.state / "jobs/job/work").stat().st_uid}
    assert owners.isdisjoint({0, pwd.getpwnam(SOMEBODY).pw_uid})
    assert (bench.state / "secret").stat().st_uid == 0


async def test_a_job_whose_directory_is_closed_to_its_account_is_refused_in_words(bench: LocalBench) -> None:
    home = bench.state / "home of another"
    (home / "digits").mkdir(parents=True)
    home.chmod(0o700)
    ended = await bench.run(replace(bench.spec(("true",), user="joe"), cwd=str(home / "digits")))
    assert ended.exit is not None
    assert ended.exit.kind is ExitKind.REFUSED
    assert ended.exit.detail == f"The working directory “{home / 'digits'}” cannot be entered: Permission denied."


async def test_checkpoints_are_read_and_copied_with_the_rights_of_their_user(bench: LocalBench) -> None:
    (bench.state / "secret").write_text("root's")
    (bench.state / "secret").chmod(0o600)
    text = (
        f"ln -s {bench.state / 'secret'} ckpt_step_1.pt; echo mine > ckpt_step_2.pt; "
        'mkdir "$SPRINGTIDE_CHECKPOINT_DIR/00000001"; cd "$SPRINGTIDE_CHECKPOINT_DIR/00000001"; '
        f'ln -s {bench.state / "secret"} model; echo \'{{"step": 1, "at": 1, "files": {{}}}}\' > manifest.json'
    )
    first, fork = (bench.spec(("sh", "-c", text), user=SOMEBODY, job=job) for job in ("first", "fork"))
    await bench.run(first)
    assert [each.name for each in await bench.executor.list_checkpoints(first)] == ["00000001", "ckpt_step_2.pt"]
    await bench.executor.copy_checkpoint(first, "ckpt_step_2.pt", fork)
    with pytest.raises(ExecutorError, match="Permission denied"):
        await bench.executor.copy_checkpoint(first, "00000001", fork)
    places = bench.state / "jobs/fork"
    assert (places / "work/ckpt_step_2.pt").stat().st_uid == pwd.getpwnam(SOMEBODY).pw_uid
    assert not list((places / "checkpoints").iterdir())
    with pytest.raises(ExecutorError):
        await bench.executor.delete_checkpoints(first, {"../secret"})
    assert (bench.state / "secret").read_text() == "root's"


async def test_a_users_job_pauses_like_any_other_and_is_adopted(bench: LocalBench) -> None:
    spec = bench.spec(("sh", "-c", WAITS), user=SOMEBODY)
    await bench.executor.launch(spec)
    await bench.running(spec.key)
    await bench.restart()
    await bench.executor.pause(spec.key)
    ended = await bench.gone(spec.key)
    assert ended.exit is not None
    assert (ended.exit.code, ended.exit.paused) == (75, True)


async def test_nothing_of_a_user_survives_a_supervisor_that_is_killed(bench: LocalBench) -> None:
    spec = bench.spec(("sh", "-c", WAITS), user=SOMEBODY)
    await bench.executor.launch(spec)
    await bench.running(spec.key)
    os.kill(bench.supervisor(spec.key), 9)
    ended = await bench.gone(spec.key)
    assert ended.exit is not None
    assert ended.exit.kind is ExitKind.LOST


async def test_a_file_of_somebody_else_in_the_output_is_not_read(bench: LocalBench) -> None:
    await bench.run(bench.spec(("true",), user=SOMEBODY))
    output = bench.state / "jobs" / "job" / "output"
    (output / "planted").write_text("root's")
    with pytest.raises(ExecutorError, match="not a plain file of the job"):
        await read_output(bench.executor, "job", "planted", 100)


@pytest.mark.parametrize(
    ("user", "says"),
    [
        ("root", "an account of the system"),
        ("daemon", "an account of the system"),
        ("a\0b", "cannot be the name of an account"),
        ("", "cannot be the name of an account"),
    ],
)
async def test_nobody_runs_jobs_as_an_account_of_the_system(bench: LocalBench, user: str, says: str) -> None:
    ended = await bench.run(bench.code("print('ran')", user=user))
    assert ended.exit is not None
    assert ended.exit.kind is ExitKind.BLOCKED
    assert ended.exit.block == Block(BlockScope.USER, user)
    assert says in ended.exit.detail
    assert await bench.log("job") == ""


async def test_a_user_without_an_account_on_this_machine_gets_one_of_the_pool(bench: LocalBench) -> None:
    ended = await bench.run(bench.spec(("sh", "-c", TELLS), user="susan"))
    assert ended.exit is not None
    assert ended.exit.code == 0, ended.exit.detail
    log = (await bench.log("job")).splitlines()
    said = dict(line.split(":", 1) for line in log if ":" in line)
    uid = str(Accounts(bench.state).known("susan"))
    assert int(uid) in range(*DEFAULT_UIDS)
    assert said["Uid"].split() == said["Gid"].split() == [uid] * 4
    assert said["Groups"].split() == [uid]
    assert said["NoNewPrivs"].split() == ["1"]
    home = bench.state / "homes" / "susan"
    assert {"USER=susan", "LOGNAME=susan", f"HOME={home}"} <= set(log)
    assert (home.stat().st_uid, home.stat().st_mode & 0o777) == (int(uid), 0o700)


async def test_a_job_cannot_read_what_is_not_its_users(bench: LocalBench) -> None:
    (bench.state / "service-token").write_text("secret")
    (bench.state / "service-token").chmod(0o600)
    text = "echo mine > ~/notes; echo mine > $SPRINGTIDE_OUTPUT_DIR/result; echo $SPRINGTIDE_OUTPUT_DIR ~"
    await bench.run(bench.spec(("sh", "-c", text), user="susan", job="hers"))
    output, home = (await bench.log("hers")).split()
    targets = ["/etc/shadow", f"{output}/result", f"{home}/notes", *map(str, bench.state.glob("*-token"))]
    targets.append(str(bench.state / "accounts.json"))
    await bench.run(bench.spec(("sh", "-c", f"cat {' '.join(targets)}; ls {home} {bench.state}"), user="joe"))
    log = await bench.log("job")
    assert log.count("Permission denied") == len(targets) + 2, log
    assert "mine" not in log


@pytest.fixture
async def closed(tmp_path: Path) -> AsyncIterator[LocalBench]:
    """A started executor whose state directory is in one that only root may enter."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "private").mkdir(mode=0o755)
    bench = LocalBench(closed / "state", accounts=Accounts(closed / "state"))
    await bench.open()
    yield bench
    await bench.close()
    assert closed.stat().st_mode & 0o777 == 0o700


async def test_what_jobs_and_python_need_is_reached_through_directories_that_others_may_not_enter(
    closed: LocalBench,
) -> None:
    secret = closed.state.parent / "private" / "secret"
    secret.write_text("secret")
    code = f"""
import os, pathlib
pathlib.Path(os.environ["SPRINGTIDE_OUTPUT_DIR"], "result").write_text(str(os.getuid()))
try:
    print(pathlib.Path({str(secret)!r}).read_text())
except OSError as error:
    print(type(error).__name__)
"""
    ended = await closed.run(closed.code(code, user="susan"))
    assert ended.exit is not None
    assert ended.exit.code == 0, (ended.exit.detail, await closed.log("job"))
    uid = Accounts(closed.state).known("susan")
    assert await read_output(closed.executor, "job", "result", 20) == str(uid).encode()
    assert await closed.log("job") == "FileNotFoundError\n"


async def test_a_program_behind_a_directory_that_its_account_may_not_enter_is_refused_in_words(
    closed: LocalBench, tmp_path: Path
) -> None:
    program, link = closed.state.parent / "private" / "tool", tmp_path / "link"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    link.symlink_to(program)
    ((way, _),) = closed_ways([program.parent], DEFAULT_UIDS[0], ())
    for attempt, path in enumerate((program, link), 1):
        found = FoundProgram(str(path), "", {"PATH": "/bin"})
        ended = await closed.run(replace(closed.spec(("tool",), user="susan", attempt=attempt), found=found))
        assert ended.exit is not None
        assert ended.exit.kind is ExitKind.REFUSED
        assert ended.exit.detail == (
            f"The program “{path}” is behind {way}, a directory that the account “susan” may not enter. Install "
            f"it elsewhere, or let other accounts enter the directory: chmod o+x {way}."
        )


async def test_what_a_job_left_before_it_had_an_account_is_its_users(bench: LocalBench) -> None:
    before = LocalBench(bench.state)
    await before.open()
    saves = "echo 1 > $SPRINGTIDE_CHECKPOINT_DIR/x; ln -s /etc/shadow $SPRINGTIDE_CHECKPOINT_DIR/link; exit 75"
    await before.run(before.spec(("sh", "-c", saves), user="susan"))
    await before.close()
    await bench.restart()
    shadow = Path("/etc/shadow").stat()
    reads = "echo 2 >> $SPRINGTIDE_CHECKPOINT_DIR/x && cat $SPRINGTIDE_CHECKPOINT_DIR/x"
    await bench.run(bench.spec(("sh", "-c", reads), user="susan", attempt=2))
    assert await bench.log("job") == "1\n2\n"
    assert Path("/etc/shadow").stat() == shadow


async def test_only_the_service_may_enter_the_state_directory_where_jobs_are_its_own(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o755)
    (state / "jobs").mkdir(mode=0o755)
    bench = LocalBench(state)
    await bench.open()
    await bench.close()
    assert [path.stat().st_mode & 0o777 for path in (state, state / "jobs")] == [0o700, 0o700]


@pytest.mark.parametrize("name", ["", "A=B", "A\0"])
def test_what_cannot_be_in_an_environment_is_refused(tmp_path: Path, name: str) -> None:
    spec = LocalBench.spec(object.__new__(LocalBench), ("true",), env={name: "x"})
    with pytest.raises(ExecutorError, match="cannot be set"):
        job_environment(spec, {}, JobPlaces(tmp_path), {}, tmp_path)


@pytest.mark.parametrize("files", [{"a": b"", "a/b": b""}, {"a/b/c": b"", "a/b": b""}])
def test_files_that_clash_are_refused_and_leave_nothing(tmp_path: Path, files: dict[str, bytes]) -> None:
    with pytest.raises(ExecutorError, match="clashes"):
        write_tree(tmp_path / "code", files, None)
    assert not (tmp_path / "code").exists()


def test_a_tree_is_written_once_and_through_no_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "code.new").mkdir()
    (tmp_path / "code.new" / "a").symlink_to(outside)
    write_tree(tmp_path / "code", {"a/x": b"1", "run.sh": b"#!/bin/sh\n"}, None)
    assert list(outside.iterdir()) == []
    assert (tmp_path / "code" / "a" / "x").read_bytes() == b"1"
    assert os.access(tmp_path / "code" / "run.sh", os.X_OK)
    write_tree(tmp_path / "code", {"a/x": b"2"}, None)
    assert (tmp_path / "code" / "a" / "x").read_bytes() == b"1"
