"""Links and files in the places of the state directory: nothing of theirs is changed, and they stop nothing."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from benches.local_bench import LocalBench

from springtide.hub_extension.local_hub.state_dir import StateDir, StateError
from springtide.scheduler.executors.accounts import AccountError, Accounts
from springtide.scheduler.executors.base import ExecutorError
from springtide.scheduler.executors.files.layout import Layout
from springtide.scheduler.own_files import keep_from_others, make_own_directory
from springtide.scheduler.store import Store, StoreError


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A directory that everybody of this machine uses."""
    directory = tmp_path / "shared"
    directory.mkdir()
    directory.chmod(0o1777)
    return directory


def test_a_directory_is_made_or_given_its_mode(tmp_path: Path) -> None:
    for _ in range(2):
        make_own_directory(tmp_path / "own", 0o711)
        assert mode(tmp_path / "own") == 0o711
        (tmp_path / "own").chmod(0o777)
    (tmp_path / "own").chmod(0o711)


@pytest.mark.root
@pytest.mark.parametrize("name", ["jobs", "homes"])
def test_accounts_leave_the_target_of_a_link_alone(tmp_path: Path, shared: Path, name: str) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / name).symlink_to(shared)
    with pytest.raises(AccountError, match=f"{name} cannot be made: a link or a file is in its place"):
        Accounts(state).prepare()
    assert mode(shared) == 0o1777


def test_a_state_directory_may_be_reached_over_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "state").symlink_to(tmp_path / "disk")
    assert StateDir(tmp_path / "state").path == tmp_path / "disk"


def test_the_hub_leaves_the_target_of_a_link_alone(tmp_path: Path, shared: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "hub").symlink_to(shared)
    with pytest.raises(StateError, match="a link or a file is in its place"):
        StateDir(tmp_path / "state")
    assert mode(shared) == 0o1777


def test_a_secret_that_is_a_link_does_not_close_its_target(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("a secret that something else reads\n")
    target.chmod(0o644)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "service-token").symlink_to(target)
    StateDir(tmp_path / "state").secret("service-token")
    assert mode(target) == 0o644


def test_the_files_of_a_store_leave_the_targets_of_links_alone(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("others read this, too\n")
    target.chmod(0o644)
    (tmp_path / "springtide.sqlite.lock").symlink_to(target)
    with pytest.raises(StoreError):
        Store.open(f"sqlite:///{tmp_path / 'springtide.sqlite'}", tmp_path)
    assert (target.read_text(), mode(target)) == ("others read this, too\n", 0o644)


def test_what_others_could_read_is_closed_and_what_is_not_there_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "open").touch()
    (tmp_path / "open").chmod(0o644)
    keep_from_others(tmp_path / "open")
    keep_from_others(tmp_path / "missing")
    assert mode(tmp_path / "open") == 0o600
    assert not (tmp_path / "missing").exists()


async def test_files_and_links_among_the_jobs_do_not_keep_the_service_from_starting(
    bench: LocalBench, tmp_path: Path
) -> None:
    jobs = bench.state / "jobs"
    (jobs / "notes.txt").write_text("of an admin")
    (jobs / "elsewhere").symlink_to(tmp_path)
    (jobs / "odd").mkdir()
    (jobs / "odd" / "attempts").write_text("no directory")
    (jobs / "odder" / "attempts").mkdir(parents=True)
    (jobs / "odder" / "attempts" / "1").write_text("no directory either")
    await bench.restart()
    assert await bench.executor.attempts() == ()
    assert Layout(bench.state).all_jobs() == ["odd", "odder"]


async def test_a_link_in_the_place_of_the_jobs_is_said(tmp_path: Path, shared: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "jobs").symlink_to(shared)
    bench = LocalBench(tmp_path / "state")
    with pytest.raises(ExecutorError, match="a link or a file is in its place"):
        await bench.open()
    assert mode(shared) == 0o1777


def test_a_missing_directory_has_no_jobs(tmp_path: Path) -> None:
    assert Layout(tmp_path / "none").all_jobs() == []
