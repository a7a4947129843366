"""`springtide backup` while a pool runs, and `springtide restore` onto it."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from hubs.hub_people import until
from hubs.hub_process import processes_of
from patience import PATIENCE_S
from pools.pool_process import ServiceProcess
from programs.terminal import Done
from servers.postgresql_server import new_database

from springtide.hub_extension.backup.archive import Archive, Manifest
from springtide.hub_extension.command import main
from springtide.hub_extension.local_hub.state_dir import StateDir
from springtide.scheduler import wire
from springtide.scheduler.client import Client, PoolError
from springtide.scheduler.store import Store

WAITS = (
    'echo ran >> "$SPRINGTIDE_OUTPUT_DIR/runs"; while ! test -e "$SPRINGTIDE_OUTPUT_DIR/go"; do sleep 0.05; done'
)
CONTINUES = """
if test -e "$SPRINGTIDE_CHECKPOINT_DIR/epoch"; then exit 0; fi
echo 7 > "$SPRINGTIDE_CHECKPOINT_DIR/epoch"; ln -s /etc/passwd "$SPRINGTIDE_OUTPUT_DIR/link"; echo ready; sleep 600
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return StateDir(tmp_path / "state").path


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.database)])
def database(request: pytest.FixtureRequest) -> str | None:
    """The URL of the store, None for SQLite in the state directory."""
    if request.param == "sqlite":
        return None
    return new_database(request.getfixturevalue("postgres"))


@pytest.fixture
def options(database: str | None) -> tuple[str, ...]:
    """The options for the store of backup and restore."""
    return () if database is None else ("--database", database)


@pytest.fixture
def service(state: Path, database: str | None) -> Iterator[ServiceProcess]:
    process = ServiceProcess(state, database=database)
    yield process
    process.stop()
    for pid in processes_of(state):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def submitted(pool: Client, script: str, gpus: int = 1) -> str:
    return pool.submit(wire.Submission(argv=["sh", "-c", script], gpus=gpus)).id


def backed_up(state: Path, file: Path, *words: str) -> Done:
    done = command("backup", file, state, *words)
    assert done.code == 0, done.err
    return done


def command(name: str, file: Path, state: Path, *words: str) -> Done:
    """Run the command in this process: a start of Python takes longer than all of it."""
    done = CliRunner().invoke(main, [name, str(file), "--state-dir", str(state), *words])
    return Done(done.exit_code, done.stdout, done.stderr)


def restored(state: Path, file: Path, *words: str) -> Done:
    return command("restore", file, state, *words)


def names_in(file: Path) -> list[str]:
    with tarfile.open(file) as tar:
        return tar.getnames()


def supervisors(state: Path) -> set[tuple[str, int]]:
    """Return the jobs that have a supervisor, with its pid."""
    records = (state / "jobs").glob("*/attempts/1/supervisor.json")
    found = {(path.parts[-4], msgspec.json.decode(path.read_bytes())["pid"]) for path in records}
    return {(job, pid) for job, pid in found if pid in set(processes_of(state / "jobs"))}


def store_in(state: Path) -> Path:
    """Make a store without a service."""
    Store.open(f"sqlite:///{state / 'springtide.sqlite'}", state).close()
    return state / "springtide.sqlite"


def test_a_restore_ends_nothing_and_repeats_nothing(
    service: ServiceProcess, options: tuple[str, ...], state: Path, tmp_path: Path
) -> None:
    file = tmp_path / "pool.backup"
    with Client(service.start(), "susan") as pool:
        stays, ends = submitted(pool, WAITS), submitted(pool, WAITS)
        until("both run", lambda: {pool.job(job).state for job in (stays, ends)} == {"running"})
        queued = submitted(pool, WAITS, gpus=4)
        backed_up(state, file, *options)
        outputs = {job: state / "jobs" / job / "output" for job in (stays, ends)}
        (outputs[ends] / "go").touch()
        until("one succeeds", lambda: pool.job(ends).state == "succeeded")
        later = submitted(pool, "exec sleep 600")
        until("the later one runs", lambda: pool.job(later).state == "running")
        refused = restored(state, file, *options)
    assert refused.code == 1
    assert "is using" in refused.err
    assert "Stop it first" in refused.err
    running = supervisors(state)
    assert {job for job, _ in running} == {stays, later}
    service.kill()
    told = restored(state, file, "--json", *options).json
    assert (told["database"], told["kept"], told["jobs"]) == (True, 0, 0)
    assert {path.suffix for path in Path(*told["replaced"]).glob("springtide.*")} & {".sqlite", ".pgdump"}
    with Client(service.start(), "susan") as pool:
        until("the end is known", lambda: pool.job(ends).state == "succeeded")
        assert [(pool.job(job).state, pool.job(job).attempt) for job in (stays, ends)] == [
            ("running", 1),
            ("succeeded", 1),
        ]
        assert pool.job(queued).state == "queued"
        with pytest.raises(PoolError) as unknown:
            pool.job(later)
        assert unknown.value.status == 404
        assert supervisors(state) == running
        (outputs[stays] / "go").touch()
        until("the other succeeds", lambda: pool.job(stays).state == "succeeded")
    assert [(output / "runs").read_text() for output in outputs.values()] == ["ran\n", "ran\n"]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_pool_goes_on_elsewhere_at_its_checkpoints(service: ServiceProcess, state: Path, tmp_path: Path) -> None:
    file, elsewhere = tmp_path / "pool.backup", tmp_path / "elsewhere"
    with Client(service.start(), "susan") as pool:
        job = submitted(pool, CONTINUES)
        until("it has saved", lambda: "ready" in pool.log(job).text)
        backed_up(state, file, "--with-jobs")
    assert f"jobs/{job}/checkpoints/epoch" in names_in(file)
    assert not [name for name in names_in(file) if name.endswith(("/link", "/lock", ".epoch"))]
    service.stop()
    assert restored(elsewhere, file, "--json").json["jobs"] == 1
    other = ServiceProcess(elsewhere)
    with Client(other.start(), "susan") as pool:
        until("it goes on", lambda: pool.job(job).state == "succeeded")
        assert pool.job(job).attempts[0].state == "lost"
    other.stop()


def test_what_a_backup_has_and_what_it_leaves_out(state: Path, tmp_path: Path) -> None:
    store_in(state)
    with closing(sqlite3.connect(state / "hub/jupyterhub.sqlite")) as hub, hub:
        hub.execute("PRAGMA journal_mode=WAL")
        hub.execute("CREATE TABLE groups (name TEXT)")
        hub.execute("INSERT INTO groups VALUES ('vision')")
        hub.commit()
        StateDir(state).secret("service-token")
        (state / "accounts.json").write_text("{}")
        done = backed_up(state, tmp_path / "plain")
        backed_up(state, tmp_path / "secret", "--with-secrets")
    assert names_in(tmp_path / "plain") == [
        "springtide.sqlite",
        "hub/jupyterhub.sqlite",
        "accounts.json",
        "manifest.json",
    ]
    assert set(names_in(tmp_path / "secret")) - set(names_in(tmp_path / "plain")) == {"service-token"}
    assert (tmp_path / "plain").stat().st_mode & 0o777 == 0o600
    assert "Left out: the files of jobs (--with-jobs), secrets (--with-secrets), home directories." in done.err
    restored(tmp_path / "other", tmp_path / "plain")
    with closing(sqlite3.connect(tmp_path / "other/hub/jupyterhub.sqlite")) as hub:
        assert hub.execute("SELECT name FROM groups").fetchall() == [("vision",)]


def test_a_backup_can_be_sent_through_a_pipe(state: Path, tmp_path: Path) -> None:
    store_in(state)
    command = [sys.executable, "-m", "springtide", "backup", "-", "--state-dir", str(state)]
    done = subprocess.run([*command, "--json"], capture_output=True, timeout=PATIENCE_S, check=True)
    (tmp_path / "piped").write_bytes(done.stdout)
    assert names_in(tmp_path / "piped") == ["springtide.sqlite", "manifest.json"]


def test_a_pipe_that_takes_no_more_is_said(state: Path) -> None:
    store_in(state)
    command = [sys.executable, "-m", "springtide", "backup", "-", "--state-dir", str(state)]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False
        )
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["Error: The standard output cannot be written: No space left on device."]


@pytest.mark.parametrize("part", [0.0, 0.01, 0.5, 0.9])
def test_an_incomplete_backup_changes_nothing(state: Path, tmp_path: Path, part: float) -> None:
    store_in(state)
    backed_up(state, tmp_path / "whole")
    whole = (tmp_path / "whole").read_bytes()
    (tmp_path / "cut").write_bytes(whole[: int(part * len(whole))])
    before = contents(state)
    done = restored(state, tmp_path / "cut")
    assert done.code == 1
    assert "incomplete" in done.err or "no backup" in done.err
    assert "Traceback" not in done.err
    assert contents(state) == before


def contents(state: Path) -> dict[Path, bytes]:
    """Return all files but locks."""
    files = (path for path in state.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files if path.suffix != ".lock"}


def forged(file: Path, name: str, content: bytes = b"x", kind: bytes = tarfile.REGTYPE) -> None:
    with tarfile.open(file, "w:gz") as tar:
        member = tarfile.TarInfo(name)
        member.size, member.type, member.linkname = len(content), kind, "/etc/passwd"
        tar.addfile(member, io.BytesIO(content))
        manifest = msgspec.json.encode(Manifest(1, "0", 0.0, True, False, False, {name: "0" * 64}))
        last = tarfile.TarInfo("manifest.json")
        last.size = len(manifest)
        tar.addfile(last, io.BytesIO(manifest))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("../evil", tarfile.REGTYPE),
        ("jobs/a/../../evil", tarfile.REGTYPE),
        ("/etc/evil", tarfile.REGTYPE),
        ("jobs/.epoch", tarfile.REGTYPE),
        ("hub/other", tarfile.REGTYPE),
        ("accounts.json", tarfile.SYMTYPE),
        ("accounts.json", tarfile.LNKTYPE),
        ("accounts.json", tarfile.REGTYPE),
    ],
)
def test_a_forged_backup_is_refused(state: Path, tmp_path: Path, name: str, kind: bytes) -> None:
    store_in(state)
    forged(tmp_path / "forged", name, kind=kind)
    done = restored(state, tmp_path / "forged")
    assert (done.code, done.out) == (1, "")
    assert "no backup of Springtide" in done.err or "differs from the saved file" in done.err
    assert not (state / "accounts.json").exists()
    assert not list(tmp_path.rglob("evil"))


def altered(state: Path, file: Path, statement: str) -> None:
    """Back up a copy of the store that was changed by a statement."""
    shutil.copy(store_in(state), state / "copy")
    with closing(sqlite3.connect(state / "copy")) as connection, connection:
        connection.execute(statement)
    with file.open("wb") as target, (state / "copy").open("rb") as copy:
        archive = Archive(target, 0.0)
        archive.add("springtide.sqlite", copy)
        archive.close(Manifest(1, "99", 0.0, True, False, False, archive.files))


def test_a_backup_of_a_newer_version_is_refused(state: Path, tmp_path: Path) -> None:
    altered(state, tmp_path / "newer", "UPDATE alembic_version SET version_num = '9999'")
    done = restored(state, tmp_path / "newer")
    assert done.code == 1
    assert "was written by a newer Springtide (schema 9999" in done.err


def test_a_backup_without_a_store_in_its_store_is_refused(state: Path, tmp_path: Path) -> None:
    altered(state, tmp_path / "empty", "DROP TABLE alembic_version")
    done = restored(state, tmp_path / "empty")
    assert done.code == 1
    assert "springtide.sqlite is not a store of Springtide" in done.err


def test_what_is_no_archive_is_said_so(state: Path, tmp_path: Path) -> None:
    for name, content in (("text", b"hello"), ("zipped", gzip.compress(b"hello"))):
        (tmp_path / name).write_bytes(content)
        done = restored(state, tmp_path / name)
        assert done.code == 1
        assert f"{tmp_path / name} is no backup of Springtide" in done.err


def test_a_file_that_is_there_is_not_overwritten(state: Path, tmp_path: Path) -> None:
    store_in(state)
    (tmp_path / "old").write_text("precious")
    done = command("backup", tmp_path / "old", state)
    assert done.code == 2
    assert "exists already; choose another name" in done.err
    assert (tmp_path / "old").read_text() == "precious"


def test_a_state_directory_without_a_store_is_named(tmp_path: Path) -> None:
    done = command("backup", tmp_path / "new", tmp_path)
    assert done.code == 1
    assert f"There is no store {tmp_path / 'springtide.sqlite'}" in done.err
    assert not list(tmp_path.iterdir())


def test_a_store_elsewhere_is_named_by_its_url(state: Path, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    store_in(volume)
    url = f"--database=sqlite:///{volume}/springtide.sqlite"
    backed_up(state, tmp_path / "saved", url)
    assert names_in(tmp_path / "saved") == ["springtide.sqlite", "manifest.json"]
    assert len(restored(state, tmp_path / "saved", url, "--json").json["replaced"]) == 1
    assert sorted(path.name.split("-")[0] for path in volume.iterdir() if path.is_dir()) == ["replaced"]
    assert not (state / "springtide.sqlite").exists()


def test_a_hub_that_runs_is_not_restored_under(state: Path, tmp_path: Path) -> None:
    store_in(state)
    backed_up(state, tmp_path / "saved")
    with StateDir(state).locked():
        done = restored(state, tmp_path / "saved")
    assert done.code == 1
    assert f"Another `springtide up` (process {os.getpid()}) uses the state directory" in done.err
