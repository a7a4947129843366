"""`springtide up` itself: plain sentences for what cannot be, and what goes on when it stops."""

from __future__ import annotations

import os
import re
import socket
import sqlite3
import subprocess
from dataclasses import replace
from pathlib import Path

import click
import pytest
from hubs.hub_people import Hub, until
from jupyterhub.auth import PAMAuthenticator
from programs.terminal import Done, Run, called, springtide
from servers.ports import free_port
from traitlets.config import Config

from springtide.hub_extension.commands.up import gpu_numbers, welcome
from springtide.hub_extension.commands.up import up as up_command
from springtide.hub_extension.local_hub.single import SharedOut, prepare, share_out
from springtide.hub_extension.local_hub.up import Running
from springtide.scheduler import wire

pytestmark = pytest.mark.xdist_group("hub-command")

SHARED: SharedOut = {"train_gpus": {"simulated": 8}, "build_gpus": 3}
LONG = """
import os, time
print("started", os.getpid(), flush=True)
time.sleep(600)
"""


def up(state_dir: Path, *words: str) -> Done:
    """Start a hub that does not come up."""
    return springtide("up", "--state-dir", str(state_dir), *words)


def refused(state_dir: Path, *words: str) -> Done:
    """Be refused before there is a hub, within this process."""
    return called("up", "--state-dir", str(state_dir), *words)


def test_it_says_who_can_log_in_and_what_to_click(hub: Hub) -> None:
    said = until("the last line", lambda: hub.log.read_text() if "Ctrl-C" in hub.log.read_text() else "")
    address = f"http://localhost:{hub.port}"
    assert f"Springtide is ready: {address}" in said
    assert "People        susan, joe, jemma\n" in said
    assert "Admin         admin: edits projects and quotas" in said
    assert f"Password      {hub.password}, the same for all\n" in said
    assert f"kept in {hub.state_dir}/password, which only you may read" in said
    together = said.index("the same as joe in a private window")
    assert said.index("Log in as susan and press Start") < together < said.index("Run the notebook of susan")
    assert "11 simulated GPUs: 3 for build notebooks, 8 for train jobs" in said
    assert f"{address}/services/springtide/pool" in said


def test_after_people_have_left_it_names_those_who_are_in_projects_and_plays_no_story() -> None:
    pool = wire.PoolView(
        seq=1,
        nodes=[],
        projects=[],
        train_gpus=8,
        train_held=0,
        build_gpus=3,
        build_held=0,
        simulated=True,
        quota_sum=0,
    )
    hub = Running(
        url="http://localhost:8000",
        state_dir="state",
        log="log",
        users=("susan", "joe", "jemma"),
        earlier=(),
        members=("susan", "joe", "jemma"),
        admins=("admin",),
        password="",
        accounts="all as one",
        password_file=None,
        pool=pool,
        is_story=True,
    )
    assert "Run the notebook of susan" in welcome(hub)
    said = welcome(replace(hub, members=("joe", "jemma"), is_story=False))
    assert "People        joe, jemma; in no project: susan\n" in said
    assert "Log in as joe, press Start" in said
    assert "Log in as susan" not in said
    assert "give people projects" not in said
    assert "2. Change people and quotas as admin:" in said
    assert "notebook of susan" not in said
    none_left = welcome(replace(hub, members=(), is_story=False))
    assert "People        susan, joe, jemma\n" in none_left
    assert "Log in as admin and give people projects with quotas" in none_left


@pytest.fixture
def prepared(tmp_path: Path) -> Config:
    """The configuration of the demonstration, before that of a file."""
    c = Config()
    prepare(c, state_dir=str(tmp_path / "state"), port=1, hub_port=2, proxy_port=3, **SHARED)
    return c


def test_a_file_that_names_other_people_leaves_no_project_of_the_demonstration(prepared: Config) -> None:
    prepared.Authenticator.allowed_users = {"ada", "joe"}
    share_out(prepared, {}, prepared=SHARED)
    assert [each["name"] for each in prepared.Springtide.projects] == ["joe"]
    assert prepared.JupyterHub.load_groups == {"joe": {"users": ["joe"]}}


def test_the_people_of_the_demonstration_stay_beside_those_that_a_file_adds(prepared: Config) -> None:
    theirs = Config()
    theirs.Authenticator.allowed_users.add("ada")
    prepared.merge(theirs)
    share_out(prepared, {}, prepared=SHARED)
    assert [each["name"] for each in prepared.Springtide.projects] == ["susan", "joe", "jemma"]


@pytest.mark.parametrize("authenticator", ["pam", PAMAuthenticator])
def test_another_authenticator_lets_nobody_in_by_the_names_of_the_demonstration(
    prepared: Config, authenticator: object
) -> None:
    prepared.JupyterHub.authenticator_class = authenticator
    share_out(prepared, {}, prepared=SHARED)
    assert "allowed_users" not in prepared.Authenticator
    assert "admin_users" not in prepared.Authenticator
    assert prepared.Springtide.projects == []


@pytest.mark.parametrize(
    ("text", "number"), [("8", 8), ("t4=8,a100=4", {"t4": 8, "a100": 4}), ("t4 = 8", {"t4": 8})]
)
def test_gpus_are_counted_together_or_by_type(text: str, number: object) -> None:
    option = up_command.params[0]
    assert gpu_numbers(1)(click.Context(up_command), option, text) == number


@pytest.mark.parametrize("text", ["0", "-1", "many", "t4=", "=4", "t4=0", "t4=1,t4=2", "t4=1,"])
def test_other_numbers_of_gpus_are_refused_with_what_is_expected(text: str) -> None:
    with pytest.raises(click.BadParameter, match="Expected a whole number from 1, or one for each type"):
        gpu_numbers(1)(click.Context(up_command), up_command.params[0], text)


def test_a_port_in_use_is_a_plain_sentence(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = refused(tmp_path / "state", "--port", str(port))
    assert done.code == 1
    assert done.err.startswith(f"Error: Port {port} is in use by another program. Choose another with --port")


@pytest.mark.parametrize("content", [b"no database " * 100, None], ids=["another file", "torn pages"])
def test_a_damaged_database_of_the_hub_is_a_plain_sentence(tmp_path: Path, content: bytes | None) -> None:
    database = tmp_path / "state" / "hub" / "jupyterhub.sqlite"
    database.parent.mkdir(parents=True, mode=0o700)
    if content is None:
        with sqlite3.connect(database) as made:
            made.execute("CREATE TABLE users (name TEXT)")
            made.executemany("INSERT INTO users VALUES (?)", [("susan" * 400,)] * 200)
        made.close()
        with database.open("r+b") as file:
            file.seek(4096)
            file.write(os.urandom(4096 * 20))
    else:
        database.write_bytes(content)
    done = refused(tmp_path / "state")
    assert done.code == 1
    assert f"The hub's database {database} is damaged." in done.err
    assert done.err.count("\n") == 1


@pytest.mark.root
@pytest.mark.parametrize(
    ("options", "left", "said"),
    [
        ("size=1m", 0, "The disk of the state directory {} is full: 0 B are free (df -h)."),
        ("size=1m", 150_000, "The hub did not come up. The disk of the state directory {} is full: "),
        (
            "size=9m,nr_inodes=6",
            -1,
            "The disk of the state directory {} takes no more files: it has no free inodes",
        ),
        ("size=9m", None, "The state directory {} is on a disk that can only be read."),
    ],
    ids=["full", "nearly-full", "inodes", "read-only"],
)
def test_a_disk_that_takes_no_more_is_a_plain_sentence(
    tmp_path: Path, options: str, left: int | None, said: str
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk], check=True)
    try:
        (disk / "hub").mkdir(mode=0o700)
        if left is None:
            subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        elif left >= 0:
            free = os.statvfs(disk)
            (disk / "filler").write_bytes(bytes(free.f_bavail * free.f_frsize - left))
        else:
            for number in range(os.statvfs(disk).f_ffree):
                (disk / f"filler {number}").touch()
        done = up(disk)
        assert said.format(disk) in done.err
        assert "Traceback" not in done.err
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_a_state_directory_in_use_is_a_plain_sentence(hub: Hub) -> None:
    done = refused(hub.state_dir, "--port", str(free_port()))
    assert done.code == 1
    assert f"Another `springtide up` (process {hub.pid}) uses the state directory {hub.state_dir}" in done.err


def test_what_the_service_says_when_it_cannot_start_is_the_plain_sentence(tmp_path: Path) -> None:
    """Here that the store is of a newer version; what else it says is proven on the service itself."""
    state = tmp_path / "state"
    state.mkdir()
    with sqlite3.connect(state / "springtide.sqlite") as store:
        store.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        store.execute("INSERT INTO alembic_version VALUES ('from_the_future')")
    store.close()
    done = up(state, "--port", str(free_port()))
    assert done.code == 1
    assert "was written by a newer Springtide" in done.err
    assert "Traceback" not in done.err


def test_a_configuration_that_is_no_python_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config.py"
    file.write_text("this is no Python")
    done = up(tmp_path / "state", "--port", str(free_port()), "--config", str(file))
    assert done.code == 1
    assert "SyntaxError" in done.err


def test_options_that_cannot_be_meant_are_bad_input(tmp_path: Path) -> None:
    for words in (["--port", "0"], ["--port", "x"], ["--simulated-gpus", "0"], ["--config", "none.py"]):
        done = refused(tmp_path / "state", *words)
        assert done.code == 2, words
        assert words[0] in done.err


def test_jobs_go_on_while_the_hub_is_down(hub: Hub, run: Run, directory: Path) -> None:
    (directory / "long.py").write_text(LONG)
    job = run("submit", "--json", "python", "long.py").json["id"]
    said = until("its first line", lambda: re.match(r"started (\d+)\n", run("logs", job).out))
    pid = int(said.group(1))
    hub.interrupt()
    os.kill(pid, 0)
    hub.start()
    [found] = [item for item in run("jobs", "--json").json["items"] if item["id"] == job]
    assert (found["state"], found["attempt"]) == ("running", 1)
    assert run("cancel", job).code == 0
