"""Stores to test: SQLite in a folder, and PostgreSQL on a real server of Debian's package."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_process import free_port
from sqlalchemy import create_engine, text
from system_packages import postgres_programs

from springtide.scheduler.store import Store

WAIT_S = 60


def _binaries() -> Path:
    found = postgres_programs()
    if found is None:
        pytest.fail("There is no PostgreSQL server on this machine: run `make tools`")
    return found


def _account() -> dict[str, Any]:
    """PostgreSQL refuses to run as root: as root, the account of Debian's package runs it."""
    if os.geteuid() != 0:
        return {}
    try:
        account = pwd.getpwnam("postgres")
    except KeyError:
        account = pwd.getpwnam("nobody")
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a server that is stopped in the end."""
    binaries, account = _binaries(), _account()
    folder = Path(tempfile.mkdtemp(prefix="springtide-postgres-"))
    folder.chmod(0o755)
    data, port = folder / "data", free_port()
    data.mkdir(mode=0o700)
    if account:
        os.chown(data, account["user"], account["group"])

    def run(*command: str | Path) -> None:
        subprocess.run(
            [str(part) for part in command], cwd=folder, check=True, timeout=WAIT_S, capture_output=True, **account
        )

    run(binaries / "initdb", "-D", data, "-A", "trust", "-U", "springtide", "-E", "UTF8", "--no-sync")
    options = f"-h 127.0.0.1 -p {port} -k {data} -c fsync=off"
    log = data / "server.log"
    run(binaries / "pg_ctl", "-D", data, "-w", "-t", str(WAIT_S), "-l", log, "-o", options, "start")
    try:
        yield f"postgresql://springtide@127.0.0.1:{port}/postgres"
    finally:
        run(binaries / "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
        shutil.rmtree(folder)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.database)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/springtide.sqlite"
    server: str = request.getfixturevalue("postgres")
    name = f"pool_{secrets.token_hex(6)}"
    admin = create_engine(server.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    admin.dispose()
    return server.removesuffix("/postgres") + f"/{name}"


@pytest.fixture
def open_store(url: str, tmp_path: Path) -> Iterator[Callable[..., Store]]:
    """Opens the store; whatever is open in the end is closed."""
    opened: list[Store] = []

    def open_it(**more: float) -> Store:
        store = Store.open(url, tmp_path / "state", **{"lock_wait": 0.0, **more})
        opened.append(store)
        return store

    yield open_it
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Callable[..., Store]) -> Store:
    return open_store()
