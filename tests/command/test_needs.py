"""What needs administrators from a terminal: `springtide needs`, and `doctor` in the same words."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from hubs.hub_people import Hub
from programs.terminal import Run

from springtide.hub_extension.command import main
from springtide.scheduler.wire import WorkspaceRequest

pytestmark = pytest.mark.xdist_group("hub-command")

HOLDER = "susan/adrift"


@pytest.fixture
def problem(hub: Hub) -> Iterator[None]:
    """A notebook that the spawner finds on a GPU that the pool does not have."""
    with hub.pool() as pool:
        pool.reserve_workspace(WorkspaceRequest(user="susan", server="adrift", gpus=1, runs_on=["GPU-none"]))
    yield
    with hub.pool() as pool:
        pool.release_workspace("susan", "adrift")


def test_a_pool_in_order_needs_nobody(run: Run) -> None:
    done = run("needs", user="admin")
    assert (done.code, done.out) == (0, "Nothing needs you.\n")
    assert run("needs", "--json", user="admin").json == {"items": [], "left": []}


def test_only_administrators_see_what_needs_them(run: Run) -> None:
    refused = run("needs")
    assert refused.code == 1
    assert "Only administrators of the pool see what needs them." in refused.err


@pytest.mark.usefixtures("problem")
def test_the_list_the_page_and_the_doctor_say_the_same_until_it_is_left(run: Run, hub: Hub) -> None:
    listed = run("needs", user="admin")
    assert listed.code == 1, "an entry is a problem"
    (need,) = json.loads(run("needs", "--json", user="admin").out)["items"]
    assert f"PROBLEM  {need['said']}" in listed.out
    assert need["remedy"] in listed.out
    doctor = CliRunner().invoke(main, ["doctor", "--state-dir", str(hub.state_dir)]).stdout
    assert f"PROBLEM  GPUs in use: {need['said']}" in doctor
    assert f"→ {need['remedy']}" in doctor
    left = run("needs", "--leave", need["id"], "--days", "2", user="admin")
    assert left.code == 0
    assert "Nothing needs you." in left.out
    assert "1 entry left for now: --all lists them." in left.out + left.err
    assert need["said"] in run("needs", "--all", user="admin").out
    assert (
        f"PROBLEM  GPUs in use: {need['said']}"
        in CliRunner().invoke(main, ["doctor", "--state-dir", str(hub.state_dir)]).stdout
    )


def test_a_wrong_use_is_refused_with_what_is_expected(run: Run) -> None:
    alone = run("needs", "--days", "2", user="admin")
    assert alone.code == 2
    assert "--leave ID" in alone.err
    unknown = run("needs", "--leave", "no such thing", user="admin")
    assert unknown.code in {1, 2}
    assert "Nothing with the id" in unknown.err


def test_a_backup_is_known_to_the_service_of_its_state(run: Run, hub: Hub) -> None:
    target = hub.state_dir.parent / "saved.tar.gz"
    done = CliRunner().invoke(main, ["backup", str(target), "--state-dir", str(hub.state_dir)])
    assert done.exit_code == 0, done.output
    assert '"saved":' in (hub.state_dir / "backup.json").read_text()
    assert "backup" not in {need["kind"] for need in run("needs", "--json", user="admin").json["items"]}
