"""Whose rights jobs and notebooks of one machine have, on real hubs. What needs root is tried as root only."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import httpx
import pytest
from hubs.hub_people import Hub, Person, environment, until
from hubs.hub_process import PATIENT, WITHOUT_PAGES
from patience import PATIENCE_S
from programs.terminal import called
from servers.ports import free_port

from springtide.scheduler.client import Client
from springtide.scheduler.executors.accounts import DEFAULT_UIDS, Accounts

pytestmark = pytest.mark.xdist_group("hub-command")

EXISTING = """
from springtide.hub_extension import configure

c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{hub}"
c.JupyterHub.db_url = "sqlite:///{state}/jupyterhub.sqlite"
c.JupyterHub.cookie_secret_file = "{state}/jupyterhub-cookie"
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = "{password}"
c.Authenticator.allowed_users = {{"susan", "joe"}}
c.JupyterHub.load_groups = {{"vision": {{"users": ["susan", "joe"]}}}}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy}"
c.ConfigurableHTTPProxy.pid_file = "{state}/proxy.pid"
c.ConfigurableHTTPProxy.command = [{python!r}, "-m", "springtide.hub_extension.local_hub.proxy"]
c.Spawner.cmd = [{python!r}, "-m", "jupyterhub.singleuser"]
c.Springtide.state_dir = "{state}/springtide"
c.Springtide.simulated_gpus = 4
c.Springtide.build_gpus = 2
c.Springtide.projects = [{{"name": "vision", "quota": 2, "build_quota": 1}}]

def flavoured(spawner):
    spawner.environment["FLAVOUR"] = spawner.user_options.get("flavour", "plain")

c.Spawner.options_form = '<label for="flavour">Flavour</label><input id="flavour" name="flavour">'
c.Spawner.options_from_form = lambda form: {{"flavour": form.get("flavour", ["plain"])[0]}}
c.Spawner.pre_spawn_hook = flavoured
{more}
configure(c)
"""
"""A hub that an admin has, with a form of its own and the two lines of the guide."""


class ExistingHub(Hub):
    """A JupyterHub of an admin's own, with `configure(c)` in its configuration."""

    password = "of the admin's choice"

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        super().__init__(directory / "springtide")
        ports = {"port": self.port, "hub": free_port(), "proxy": free_port()}
        text = EXISTING.format(
            python=sys.executable,
            state=directory,
            more=f"{PATIENT}\n{WITHOUT_PAGES}",
            password=self.password,
            **ports,
        )
        self._config.write_text(text)

    def command(self) -> list[str]:
        return [sys.executable, "-m", "jupyterhub", "-f", str(self._config)]


@pytest.fixture(scope="module")
def existing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExistingHub]:
    hub = ExistingHub(tmp_path_factory.mktemp("existing") / "hub")
    hub.start()
    yield hub
    hub.stop()


def log_of(hub: Hub, user: str, script: str) -> str:
    """What a job of the user's prints that runs a script of the shell."""
    url, token = f"{hub.url}/services/springtide", hub.token(user)
    env = {"SPRINGTIDE_URL": url, "JUPYTERHUB_API_TOKEN": token}
    command = ("submit", "--json", "--gpus", "1", "sh", "-c", f"echo it begins; {script}")
    job = called(*command, env=env, cwd=hub.state_dir.parent).json["id"]
    with Client(url, token) as pool:
        until(f"the end of {job}", lambda: pool.job(job).state in {"succeeded", "failed"})
    return called("logs", job, env=env).out.partition("it begins\n")[2]


def rights(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


@pytest.mark.root
def test_jobs_and_notebooks_of_a_hub_with_the_two_lines_are_not_roots(existing: ExistingHub) -> None:
    susan = Person(existing, "susan")
    try:
        susan.start({"gpus": 1}).raise_for_status()
        pid = susan.ready()
        secret = f"{existing.state_dir}/service-token"
        uid, home, *said = log_of(
            existing, "susan", f"id -u; echo $HOME; cat /etc/shadow; cat {secret}"
        ).splitlines()
        assert int(uid) in range(DEFAULT_UIDS[0], DEFAULT_UIDS[1] + 1)
        assert len([line for line in said if re.search("Permission denied|No such file", line)]) == 2, said
        assert rights(pid)["Uid"].split() == [uid] * 4
        assert rights(pid)["Groups"].split() == [uid]
        assert rights(pid)["NoNewPrivs"] == "1"
        assert Path(home).stat().st_mode & 0o777 == 0o700
        assert log_of(existing, "joe", f"ls {home}; id -u").count("Permission denied") == 1
        susan.stop()
    finally:
        susan.close()


@pytest.mark.root
def test_the_hubs_own_form_keeps_its_fields_beside_that_of_the_gpus(existing: ExistingHub) -> None:
    joe = Person(existing, "joe")
    try:
        page = joe.browser.get("/hub/spawn").text
        assert 'name="gpus"' in page
        assert 'name="flavour"' in page
        joe.send_form("0", flavour="large")
        pid = joe.ready()
        started = environment(pid)
        assert started["FLAVOUR"] == "large"
        assert "SPRINGTIDE_URL" in started
        assert (joe.server() or {})["user_options"] == {"gpus": 0, "flavour": "large"}
        joe.stop()
        refused = joe.start({"gpu": 1})
        assert refused.status_code == 400
        assert "Unknown option “gpu”" in refused.json()["message"]
    finally:
        joe.close()


BECOME = """
import json, os, sys
from springtide.scheduler.executors.supervisor.account import become
become(json.loads(sys.argv[1]))
os.umask(0o022)
os.chdir(os.environ["HOME"])
os.execv(sys.argv[2], sys.argv[2:])
"""


class Lab:
    """An account that is not root: a numeric one where this process is root, else this process's own."""

    def __init__(self, directory: Path) -> None:
        self.home, self._prefix = directory, [sys.executable]
        if os.geteuid() == 0:
            accounts = Accounts(directory / "accounts")
            accounts.prepare()
            account = accounts.of("lab")
            self.home = Path(account.home)
            self._prefix = [sys.executable, "-c", BECOME, json.dumps(account.record), sys.executable]

    def python(self, *words: str) -> list[str]:
        """Python, as this account."""
        return [*self._prefix, *words]

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.home), "PYTHONUNBUFFERED": "1"}


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


CHOICES = """
import sys
from springtide.hub_extension import configure

def choose(accounts):
    print("chosen:", accounts, file=sys.stderr)
    c.Springtide.accounts = accounts
    configure(c)
    print("goes on", file=sys.stderr)

choose("shared")
try:
    choose("own")
except SystemExit as refusal:
    print(refusal, file=sys.stderr)
choose(None)
"""
"""A configuration that tries each choice of accounts; the last is to make none."""


def test_a_hub_that_is_not_roots_runs_all_as_one_account_only_if_told_to(lab: Lab) -> None:
    file = lab.home / "jupyterhub_config.py"
    file.write_text(CHOICES)
    done = subprocess.run(
        lab.python("-m", "jupyterhub", "-f", str(file)),
        env=lab.environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    _, shared, own, none = done.stderr.split("chosen: ")
    assert "All users must trust each other." in shared
    assert "goes on" in shared
    for said in (own, none):
        assert "springtide: " in said
        assert "c.Springtide.accounts = 'shared'" in said
        assert "goes on" not in said
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


class LabHub(Hub):
    """`springtide up` without root."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab.home / "state")
        self._lab = lab

    def command(self) -> list[str]:
        return self._lab.python(*super().command()[1:])


def test_without_root_everybody_is_told_that_all_runs_as_one_account(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(lab.home))
    hub = LabHub(lab)
    hub.start()
    try:
        said = until("the last line", lambda: hub.log.read_text() if "Ctrl-C" in hub.log.read_text() else "")
        assert "ALL notebooks and jobs run as" in said
        page = unescape(httpx.get(f"{hub.url}/hub/login", timeout=PATIENCE_S).text)
        assert "whoever logs in acts as" in page
        assert "All users must trust each other." in page
        assert "All users must trust each other." in (hub.state_dir / "hub" / "hub.log").read_text()
        assert log_of(hub, "susan", "id -u").strip() == str(hub.state_dir.stat().st_uid)
        assert hub.state_dir.stat().st_mode & 0o777 == 0o700
    finally:
        hub.stop()


@pytest.mark.root
def test_jobs_and_notebooks_of_springtide_up_are_their_users(hub: Hub) -> None:
    susan = Person(hub, "susan")
    try:
        said = until("the last line", lambda: hub.log.read_text() if "Ctrl-C" in hub.log.read_text() else "")
        assert "each person's notebooks and jobs run as an account of her own" in said
        assert "acts as" not in httpx.get(f"{hub.url}/hub/login", timeout=PATIENCE_S).text
        susan.start({"gpus": 1}).raise_for_status()
        uid = rights(susan.ready())["Uid"].split()[0]
        assert int(uid) >= DEFAULT_UIDS[0]
        example = hub.state_dir / "homes" / "susan" / "examples" / "digits" / "digits.ipynb"
        assert example.stat().st_uid == int(uid)
        secrets = " ".join(
            map(str, (hub.state_dir / "service-token", hub.state_dir / "springtide.sqlite", hub.log))
        )
        said = log_of(
            hub, "susan", f"id -u; {sys.executable} -c 'import numpy; print(numpy.__name__)'; cat {secrets}"
        )
        assert said.splitlines()[:2] == [uid, "numpy"]
        assert said.count("Permission denied") + said.count("No such file") == 3
        modes = {path.name: oct(path.stat().st_mode & 0o777) for path in hub.state_dir.iterdir() if path.is_file()}
        assert set(modes.values()) == {"0o600"}, modes
        assert hub.state_dir.stat().st_mode & 0o777 == 0o711
        susan.stop()
    finally:
        susan.close()
