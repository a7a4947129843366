from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from patience import PATIENCE_S
from pools.pool_process import running_service

from springtide.scheduler.client import Client, PoolError
from springtide.widgets.connection import Connection
from springtide.widgets.shared_pool import Pool

UNFINISHED = "queued,starting,running,pausing,cancelling,ending,paused"


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real service: 4 simulated train GPUs; susan, joe, anna in vision, jemma, anna in speech."""
    with running_service(tmp_path_factory.mktemp("pool")) as url:
        yield url


@pytest.fixture(scope="session")
def image_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The same, of a pool whose jobs run in images."""
    with running_service(tmp_path_factory.mktemp("images"), "lab/base:1", "lab/torch:*") as url:
        yield url


@pytest.fixture(scope="session")
def client_of(service: str) -> Callable[[str], Client]:
    """One client per person for the whole session, as a kernel has one."""
    return functools.cache(functools.partial(Client, service))


@pytest.fixture
def pool_of(client_of: Callable[[str], Client]) -> Iterator[Callable[[str], Pool]]:
    """The pool as a person sees it; her jobs are ended afterwards."""
    seen: set[str] = set()

    def pool_of(user: str) -> Pool:
        seen.add(user)
        return Pool(Connection(client_of(user)))

    yield pool_of
    for user in seen:
        end_jobs(client_of(user))


@pytest.fixture
def pool(pool_of: Callable[[str], Pool]) -> Pool:
    """The pool as susan sees it."""
    return pool_of("susan")


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def until(true: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)


def end_jobs(client: Client) -> None:
    """Cancel a person's jobs and wait until they are gone."""
    for job in client.all_jobs(state=UNFINISHED, mine=True):
        with suppress(PoolError):
            client.cancel(job.id)
    until(lambda: not client.jobs(state=UNFINISHED, mine=True).items)


@pytest.fixture(name="until")
def until_fixture() -> Callable[..., None]:
    return until
