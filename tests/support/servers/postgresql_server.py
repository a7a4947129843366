"""A real PostgreSQL server of Debian's package, and empty databases on it."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from machines.system_packages import postgres_programs
from patience import PATIENCE_S
from servers.ports import free_port
from sqlalchemy import create_engine, text


def programs() -> Path:
    """Return the directory of the server's programs; fail the test if there are none."""
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


@contextmanager
def running_server() -> Iterator[str]:
    """Yield the URL of a server, stopped in the end."""
    binaries, account = programs(), _account()
    folder = Path(tempfile.mkdtemp(prefix="springtide-postgres-"))
    folder.chmod(0o755)
    data, port = folder / "data", free_port()
    data.mkdir(mode=0o700)
    if account:
        os.chown(data, account["user"], account["group"])

    def run(*command: str | Path) -> None:
        subprocess.run(
            [str(part) for part in command],
            cwd=folder,
            check=True,
            timeout=PATIENCE_S,
            capture_output=True,
            **account,
        )

    run(binaries / "initdb", "-D", data, "-A", "trust", "-U", "springtide", "-E", "UTF8", "--no-sync")
    options = f"-h 127.0.0.1 -p {port} -k {data} -c fsync=off"
    log = data / "server.log"
    run(binaries / "pg_ctl", "-D", data, "-w", "-t", str(PATIENCE_S), "-l", log, "-o", options, "start")
    try:
        yield f"postgresql://springtide@127.0.0.1:{port}/postgres"
    finally:
        run(binaries / "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
        shutil.rmtree(folder)


def new_database(server: str, like: str = "template1") -> str:
    """Create a database on a server and return its URL: an empty one, or a copy of the one with this URL."""
    name = f"pool_{secrets.token_hex(6)}"
    admin = create_engine(server.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {like.rpartition('/')[2]}"))
    admin.dispose()
    return server.removesuffix("/postgres") + f"/{name}"
