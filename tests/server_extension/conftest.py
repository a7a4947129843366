"""Real notebook servers, in front of a real pool and without one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from benches.server_extension_bench import NotebookServer, start_server, stop
from pools.pool_process import running_service

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run all tests with a notebook server in one worker, so that there is one."""
    for item in items:
        if item.path.is_relative_to(HERE) and "server" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("notebook-server"))


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real service: 4 simulated train GPUs; susan and joe in vision."""
    with running_service(tmp_path_factory.mktemp("pool")) as url:
        yield url


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, service: str) -> Iterator[NotebookServer]:
    """Susan's notebook server."""
    root = tmp_path_factory.mktemp("susan")
    server = start_server(root, {"SPRINGTIDE_URL": service, "JUPYTERHUB_API_TOKEN": "susan"})
    yield server
    stop(server)


@pytest.fixture(scope="session")
def lonely(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NotebookServer]:
    """A notebook server without a pool."""
    server = start_server(tmp_path_factory.mktemp("lonely"), {})
    yield server
    stop(server)
