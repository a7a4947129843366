"""`springtide backup` and `springtide restore` of a store in PostgreSQL, by a real server and its programs."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from programs.terminal import Done
from servers.postgresql_server import new_database, programs
from sqlalchemy import Engine, create_engine, inspect, text

from springtide.hub_extension.command import main
from springtide.hub_extension.local_hub.state_dir import StateDir
from springtide.scheduler.store import Store
from springtide.scheduler.store.opening import parse_url

RECORDS_ITS_COMMAND = """#!/bin/sh
printf '%s\\n' "$0 $*" >> {log}
exec {program} "$@"
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return StateDir(tmp_path / "state").path


@pytest.fixture
def database(postgres: str, state: Path) -> str:
    """The URL of a store."""
    url = new_database(postgres)
    Store.open(url, state).close()
    return url


@pytest.fixture
def engine(database: str) -> Iterator[Engine]:
    engine = create_engine(parse_url(database))
    yield engine
    engine.dispose()


def change(engine: Engine, *statements: str) -> None:
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))


def epoch(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(connection.execute(text("SELECT value FROM meta WHERE key = 'epoch'")).scalar_one())


def command(name: str, file: Path, state: Path, *words: str) -> Done:
    done = CliRunner().invoke(main, [name, str(file), "--state-dir", str(state), *words])
    return Done(done.exit_code, done.stdout, done.stderr)


def test_a_restore_replaces_every_table_and_keeps_what_was_there(
    database: str, engine: Engine, state: Path, tmp_path: Path
) -> None:
    """As after an upgrade that is taken back: the newer schema had a table more."""
    file = tmp_path / "old"
    assert command("backup", file, state, "--database", database).code == 0
    with tarfile.open(file) as tar:
        assert tar.getnames() == ["springtide.pgdump", "manifest.json"]
    before = epoch(engine)
    change(engine, "CREATE TABLE later (id int)", "UPDATE meta SET value = 99 WHERE key = 'epoch'")
    told = command("restore", file, state, "--database", database, "--json").json
    assert told["database"]
    assert epoch(engine) == before
    assert not inspect(engine).has_table("later")
    kept = Path(*told["replaced"]) / "springtide.pgdump"
    assert kept.stat().st_mode & 0o777 == 0o600
    Store.open(database, state).close()


def test_a_backup_goes_into_an_empty_database(
    postgres: str, database: str, engine: Engine, state: Path, tmp_path: Path
) -> None:
    file, other = tmp_path / "pool", new_database(postgres)
    assert command("backup", file, state, "--database", database).code == 0
    told = command("restore", file, tmp_path / "elsewhere", "--database", other, "--json").json
    assert (told["database"], told["replaced"]) == (True, [])
    restored = create_engine(parse_url(other))
    assert epoch(restored) == epoch(engine)
    restored.dispose()


def test_a_backup_of_a_newer_schema_or_of_no_store_changes_nothing(
    database: str, engine: Engine, state: Path, tmp_path: Path
) -> None:
    newer, none = tmp_path / "newer", tmp_path / "none"
    change(engine, "UPDATE alembic_version SET version_num = '9999'")
    assert command("backup", newer, state, "--database", database).code == 0
    change(engine, "DELETE FROM alembic_version", "CREATE TABLE marker (id int)")
    assert command("backup", none, state, "--database", database).code == 0
    refused = command("restore", newer, state, "--database", database)
    assert (refused.code, "written by a newer Springtide (schema 9999" in refused.err) == (1, True)
    refused = command("restore", none, state, "--database", database)
    assert (refused.code, "is not a store of Springtide" in refused.err) == (1, True)
    assert inspect(engine).has_table("marker")


def test_a_store_goes_back_only_into_a_database_of_its_kind(database: str, state: Path, tmp_path: Path) -> None:
    Store.open(f"sqlite:///{state / 'springtide.sqlite'}", state).close()
    ours, theirs = tmp_path / "sqlite", tmp_path / "postgresql"
    assert command("backup", ours, state).code == 0
    assert command("backup", theirs, state, "--database", database).code == 0
    refused = command("restore", ours, state, "--database", database)
    assert (refused.code, "is of SQLite, and --database names" in refused.err) == (1, True)
    refused = command("restore", theirs, state)
    assert (refused.code, "name the database that it goes into" in refused.err) == (1, True)


def test_the_password_is_in_no_command_line(
    database: str, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "commands"
    for name in ("pg_dump", "pg_restore", "psql"):
        wrapper = tmp_path / "bin" / name
        wrapper.parent.mkdir(exist_ok=True)
        wrapper.write_text(RECORDS_ITS_COMMAND.format(log=log, program=programs() / name))
        wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    url = database.replace("springtide@", "springtide:hunter2@")
    assert command("backup", tmp_path / "pool", state, "--database", url).code == 0
    done = command("restore", tmp_path / "pool", state, "--database", url)
    assert done.code == 0, done.err
    assert "springtide@127.0.0.1" in log.read_text()
    assert "hunter2" not in log.read_text() + done.out + done.err


def test_without_the_programs_of_postgresql_the_way_out_is_named(
    database: str, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (state / "accounts.json").write_text("{}")
    monkeypatch.setenv("PATH", str(tmp_path))
    file = tmp_path / "files"
    done = command("backup", file, state, "--database", database)
    assert done.code == 1
    assert "there is no program pg_dump here" in done.err
    assert "--without-database" in done.err
    assert not file.exists()
    done = command("backup", file, state, "--database", database, "--without-database")
    assert done.code == 0
    assert "Left out: the store in PostgreSQL" in done.err
    told = command("restore", file, state, "--database", database)
    assert (told.code, "by PostgreSQL's own tools before the next start" in told.out) == (0, True)


def test_a_server_that_is_not_there_is_said_so(database: str, state: Path, tmp_path: Path) -> None:
    nowhere = database.rpartition(":")[0] + ":9/pool"
    done = command("backup", tmp_path / "pool", state, "--database", nowhere)
    assert (done.code, "pg_dump failed: " in done.err) == (1, True)
    assert not (tmp_path / "pool").exists()
    assert command("backup", tmp_path / "pool", state, "--database", database).code == 0
    done = command("restore", tmp_path / "pool", state, "--database", nowhere)
    assert (done.code, "The store failed: " in done.err) == (1, True)


def test_only_a_store_in_postgresql_can_be_left_out(state: Path, tmp_path: Path) -> None:
    done = command("backup", tmp_path / "pool", state, "--without-database")
    assert (done.code, "the store is the file" in done.err) == (2, True)
