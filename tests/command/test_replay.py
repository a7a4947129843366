"""`springtide replay` plans stored decisions again, while their pool runs and after it has ended."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hubs.hub_people import until
from pools.pool_process import running_service
from programs.terminal import Done, called

from springtide.scheduler import wire
from springtide.scheduler.client import Client


@dataclass(frozen=True)
class Pool:
    """A pool that has made decisions, and runs."""

    state: Path
    newest: int


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    state = tmp_path_factory.mktemp("pool")
    with running_service(state) as url, Client(url, "susan") as susan, Client(url, "jemma") as jemma:
        susan.submit(wire.Submission(argv=["sleep", "600"], gpus=4, name="tidal"))
        owner = jemma.submit(wire.Submission(argv=["sleep", "600"], gpus=2)).id
        until("the owner's start", lambda: jemma.job(owner).state == "running")
        yield Pool(state, replayed(state, "newest").json["decision"])


def replayed(state: Path, decision: str, *words: str) -> Done:
    return called("replay", decision, "--state-dir", str(state), "--json", *words)


def test_every_decision_of_a_running_pool_is_made_again(pool: Pool) -> None:
    assert pool.newest >= 3
    for decision in range(1, pool.newest + 1):
        told = replayed(pool.state, str(decision)).json
        assert (told["decision"], told["same"], told["difference"]) == (decision, True, "")
        assert told["plan"]["decisions"] == told["replayed"]["decisions"] != []


def test_a_decision_is_told_in_words(pool: Pool) -> None:
    done = called("replay", "1", "--state-dir", str(pool.state))
    assert done.code == 0, done.err
    first, what, verdict = done.out.splitlines()
    assert first.startswith("Decision 1 of ")
    assert what.startswith("  start tidal on 4 GPUs of train: Enough GPUs were idle")
    assert verdict == "The replay makes the same plan."


@pytest.fixture
def copy(pool: Pool, tmp_path: Path) -> Path:
    """A copy of the store for the test to change."""
    source = sqlite3.connect(pool.state / "springtide.sqlite")
    target = sqlite3.connect(tmp_path / "springtide.sqlite")
    with source, target:
        source.backup(target)
    source.close()
    target.close()
    return tmp_path


def changed(state: Path, statement: str) -> None:
    connection = sqlite3.connect(state / "springtide.sqlite")
    with connection:
        connection.execute(statement)
    connection.close()


def test_a_plan_that_is_not_made_again_is_a_failure(copy: Path) -> None:
    changed(copy, """UPDATE decisions SET plan = '{"decisions":[],"wake_at":null}' WHERE id = 1""")
    done = called("replay", "1", "--state-dir", str(copy))
    assert done.code == 1
    assert "  nothing to do\nThe replay differs: " in done.out
    told = replayed(copy, "1")
    assert told.code == 1
    assert '"same":false' in told.out


def test_a_journal_that_was_changed_is_not_replayed(copy: Path) -> None:
    changed(copy, "UPDATE decisions SET changes = '[]' WHERE id = 2")
    done = replayed(copy, "2")
    assert (done.code, done.out) == (1, "")
    assert done.err == "Error: Decision 2 does not belong to its digest.\n"


def test_a_decision_that_is_not_kept_is_named_with_those_that_are(pool: Pool) -> None:
    done = replayed(pool.state, "999")
    assert done.code == 1
    assert f"There is no decision 999 in the store, which has those from 1 to {pool.newest}." in done.err


@pytest.mark.parametrize("decision", ["x", "-1", "1.5"])
def test_what_is_no_decision_is_bad_input(pool: Pool, decision: str) -> None:
    done = called("replay", "--state-dir", str(pool.state), "--", decision)
    assert done.code == 2
    assert f"expected a number, or newest, got “{decision}”" in done.err


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    done = replayed(tmp_path, "1")
    assert done.code == 1
    assert f"There is no store {tmp_path / 'springtide.sqlite'}" in done.err
    assert list(tmp_path.iterdir()) == []


def test_an_empty_database_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "springtide.sqlite").touch()
    done = replayed(tmp_path, "1")
    assert done.code == 1
    assert "was written by an older Springtide, or is empty" in done.err


def test_a_store_of_a_newer_version_is_named(copy: Path) -> None:
    changed(copy, "UPDATE alembic_version SET version_num = '9999'")
    done = replayed(copy, "1")
    assert done.code == 1
    assert "was written by a newer Springtide (schema 9999" in done.err


def test_a_store_can_be_named_by_its_address(copy: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere.sqlite"
    shutil.copy(copy / "springtide.sqlite", moved)
    assert replayed(tmp_path / "nowhere", "1", "--database", f"sqlite:///{moved}").json["same"] is True
