"""GPUs that something without a place keeps out of the pool: `springtide nodes`, `free` and `doctor`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from hubs.hub_people import Hub
from programs.terminal import Run

from springtide.hub_extension.command import main
from springtide.scheduler.wire import WorkspaceRequest

pytestmark = pytest.mark.xdist_group("hub-command")

GONE = "GPU-fell-off-the-bus"


@pytest.fixture
def holder(hub: Hub) -> Iterator[str]:
    """A notebook that the spawner finds on a GPU that the pool does not have."""
    with hub.pool() as pool:
        pool.reserve_workspace(WorkspaceRequest(user="susan", server="lab", gpus=1, runs_on=[GONE]))
    yield "susan/lab"
    with hub.pool() as pool:
        pool.release_workspace("susan", "lab")


def test_what_keeps_gpus_out_of_the_pool_is_listed_and_freed_by_an_admin_who_is_sure(
    run: Run, holder: str
) -> None:
    told = run("nodes", user="admin").out
    assert (
        f"The notebook “lab” of “susan” runs on {GONE}, which is not among the GPUs of the pool any more." in told
    )
    assert f"springtide free {holder} --end" in told
    assert "susan/lab" not in run("nodes").out, "only who sees every job sees it"
    refused = run("free", holder, "--yes")
    assert refused.code == 1
    assert "administrators" in refused.err
    unsure = run("free", holder, user="admin")
    assert unsure.code == 1
    assert "Has it ended, and are its GPUs free?" in unsure.out
    assert holder in run("nodes", user="admin").out
    freed = run("free", holder, "--yes", user="admin")
    assert (freed.code, freed.out) == (0, f"{holder} holds no GPUs any more.\n")
    assert holder not in run("nodes", user="admin").out
    again = run("free", holder, "--yes", user="admin")
    assert again.code == 2
    assert "Nothing called “susan/lab” keeps GPUs out of the pool." in again.err


def test_the_doctor_says_what_keeps_gpus_out_of_the_pool(hub: Hub, holder: str) -> None:
    done = CliRunner().invoke(main, ["doctor", "--state-dir", str(hub.state_dir)])
    assert "It keeps 1 GPU out of the pool until it has ended." in done.stdout
    assert f"springtide free {holder} --end" in done.stdout
    assert "usage records: The use of GPUs is recorded." in done.stdout
