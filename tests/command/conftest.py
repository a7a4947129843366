"""One real `springtide up` for the command line's tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hubs.hub_people import Hub
from hubs.hub_process import WITHOUT_PAGES
from programs.terminal import Done, Run, called
from servers.postgresql_server import programs, running_server


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("up") / "state", WITHOUT_PAGES)
    hub.start()
    yield hub
    hub.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL server that is stopped in the end; its programs are on the path."""
    with pytest.MonkeyPatch.context() as patch, running_server() as url:
        patch.setenv("PATH", str(programs()), prepend=os.pathsep)
        yield url


@pytest.fixture(scope="session")
def tokens(hub: Hub) -> Callable[[str], str]:
    """A token for each person, made once."""
    made: dict[str, str] = {}

    def token(user: str) -> str:
        if user not in made:
            made[user] = hub.token(user)
        return made[user]

    return token


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory that the accounts of all jobs may enter; those of pytest are closed to them."""
    with TemporaryDirectory(prefix="springtide-") as made:
        path = Path(made)
        path.chmod(0o755)
        yield path


@pytest.fixture
def run(hub: Hub, tokens: Callable[[str], str], directory: Path) -> Run:
    """The command in a directory of susan's, with her token, within this process; its environment is activated."""

    def command(*words: str, user: str = "susan", variables: Mapping[str, str] = {}) -> Done:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        env = {"SPRINGTIDE_URL": f"{hub.url}/services/springtide", "JUPYTERHUB_API_TOKEN": tokens(user)}
        return called(*words, env={"PATH": path, **env, **variables}, cwd=directory)

    return command
