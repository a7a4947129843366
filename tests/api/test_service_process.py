from __future__ import annotations

import contextlib
import json
import os
import re
import runpy
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from patience import PATIENCE_S
from pools import warm_processes
from servers.ports import free_port

from springtide.hub_extension.service.service import Springtide, main
from springtide.scheduler.store import Store
from springtide.scheduler.store.records import WriteBatch

SERVICE = [sys.executable, "-m", "springtide.hub_extension"]


def environment(**settings: Any) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("JUPYTERHUB")},
        "JUPYTERHUB_API_TOKEN": "the-services-own-token",
        "JUPYTERHUB_CLIENT_ID": "service-springtide",
        "JUPYTERHUB_SERVICE_NAME": "springtide",
        "JUPYTERHUB_API_URL": "http://127.0.0.1:9/hub/api",
        "SPRINGTIDE_CONFIG": json.dumps(settings),
    }


class Service:
    """The service as the hub starts it, as a process of its own."""

    def __init__(self, state_dir: Path, **settings: Any) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/services/springtide/api/v1"
        given = {
            "state_dir": str(state_dir),
            "port": self.port,
            "simulated_gpus": 3,
            "takeover_wait": 0,
            "accounts": "shared",
            **settings,
        }
        self._printed = state_dir.parent / f"{state_dir.name}-{self.port}.log"
        self.process = warm_processes.begin(_run, printed=self._printed, environment=environment(**given))

    def ready(self) -> Service:
        deadline = time.monotonic() + PATIENCE_S
        while not answers(self.url):
            assert self.process.is_alive(), self._printed.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return self

    def stop(self) -> tuple[int | None, str]:
        """Have it stop; return its exit code and what it said."""
        self.process.terminate()
        return self.ended()

    def ended(self) -> tuple[int | None, str]:
        """Wait for its end; return its exit code and what it said."""
        self.process.join(PATIENCE_S)
        return self.process.exitcode, self._printed.read_text()

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        self.process.kill()
        self.process.join()


def _run() -> None:
    runpy.run_module("springtide.hub_extension", run_name="__main__")


def answers(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"{url}/health", timeout=PATIENCE_S, trust_env=False, verify=False).status_code == 200
    return False


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Any]:
    started: list[Service] = []

    def start(state_dir: Path = tmp_path / "state", **settings: Any) -> Service:
        started.append(Service(state_dir, **settings))
        return started[-1]

    yield start
    for service in started:
        service.kill()


def test_it_serves_until_told_to_stop_and_leaves_quietly_even_without_the_hub(services, tmp_path):
    service = services().ready()
    answer = httpx.get(
        f"{service.url}/me",
        headers={"Authorization": "token susans"},
        timeout=PATIENCE_S,
        trust_env=False,
        verify=False,
    )
    assert (answer.status_code, answer.json()["code"]) == (503, "hub_away")
    assert {path.name for path in (tmp_path / "state").iterdir()} >= {"springtide.sqlite", "cookie-secret"}
    assert (tmp_path / "state" / "cookie-secret").stat().st_mode & 0o077 == 0
    code, said = service.stop()
    assert code == 0
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("accounts", "mode"),
    [
        ("shared", 0o700),
        pytest.param("own", 0o711, marks=pytest.mark.root),
    ],
)
def test_what_it_keeps_is_closed_to_other_accounts_also_where_it_was_open(services, tmp_path, accounts, mode):
    state = tmp_path / "state"
    state.mkdir()
    Store.open(f"sqlite:///{state / 'springtide.sqlite'}", state).close()
    before = os.umask(0)
    try:
        state.chmod(0o755)
        (state / "springtide.sqlite").chmod(0o644)
        service = services(accounts=accounts).ready()
    finally:
        os.umask(before)
    kept = [path for path in state.rglob("*") if path.is_file() and state / "programs" not in path.parents]
    files = {path.name: oct(path.stat().st_mode & 0o777) for path in kept}
    assert files.keys() >= {"springtide.sqlite", "springtide.sqlite-wal", "springtide.sqlite-shm", "cookie-secret"}
    assert set(files.values()) == {"0o600"}, files
    assert state.stat().st_mode & 0o777 == mode
    assert Path(f"/proc/{service.process.pid}/status").read_text().split("Umask:")[1].split()[0] == "0077"
    service.stop()


def one_sentence(told: str) -> str:
    """Return the one sentence that is no line of the log."""
    said = "".join(line for line in told.splitlines(keepends=True) if not re.match(r"\d{4}-\d\d-\d\d ", line))
    assert said.count("\n") == 1, told
    assert said.startswith("springtide: ")
    return said


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """Runs the service in this process with settings that it cannot run with: its exit code and what it said."""

    def run(state_dir: Path = tmp_path / "state", **settings: Any) -> tuple[int, str]:
        given = {
            "state_dir": str(state_dir),
            "port": free_port(),
            "simulated_gpus": 3,
            "takeover_wait": 0,
            "accounts": "shared",
            **settings,
        }
        for name, value in environment(**given).items():
            monkeypatch.setenv(name, value)
        code = main([])
        return code, one_sentence(capfd.readouterr().err)

    return run


def test_a_port_in_use_is_said_plainly(refused):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, said = refused(port=taken.getsockname()[1])
    assert code == 1
    assert "Address already in use" in said
    assert "Springtide.port" in said


def test_a_state_directory_of_another_service_is_not_touched(refused, tmp_path):
    state = tmp_path / "state"
    with contextlib.closing(Store.open(f"sqlite:///{state / 'springtide.sqlite'}", state)) as store:
        code, said = refused()
        store.commit(WriteBatch())
    assert code == 1
    assert str(state) in said


def test_a_state_directory_of_a_newer_version_is_left_alone(refused, tmp_path):
    state = tmp_path / "state"
    file = state / "springtide.sqlite"
    Store.open(f"sqlite:///{file}", state).close()
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute("update alembic_version set version_num = 'from-the-future'")
        database.commit()
    code, said = refused()
    assert code == 1
    assert "newer" in said


OWN_MOUNTS = ["unshare", "--user", "--map-root-user", "--mount"]
ON_A_SMALL_DISK = """
set -e
mount -t tmpfs -o size=4m none "$1"
cp -a "$2/." "$1/"
case "$3" in
full) dd if=/dev/zero of="$1/filler" bs=4k 2>/dev/null || true ;;
read-only) mount -o remount,ro "$1" ;;
esac
shift 3
code=0
"$@" || code=$?
ls -A "$SPRINGTIDE_TEST_DISK" | grep "^[.]" >&2 || true
exit $code
"""


@pytest.fixture(scope="module")
def used_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state directory that a service has used."""
    state = tmp_path_factory.mktemp("used") / "state"
    service = Service(state)
    try:
        service.ready().stop()
    finally:
        service.kill()
    (state / "ports.json").unlink(missing_ok=True)
    return state


@pytest.mark.parametrize("used_before", [False, True], ids=["new", "used before"])
@pytest.mark.parametrize("disk", ["full", "read-only"])
def test_a_disk_that_cannot_be_written_is_said_in_one_sentence_and_no_temporary_file_stays(
    request, tmp_path, disk, used_before
):
    """On a real file system of its own, in a mount namespace."""
    state, small = tmp_path / "state", tmp_path / "small"
    small.mkdir()
    if used_before:
        shutil.copytree(request.getfixturevalue("used_directory"), state)
    (state / "hub").mkdir(parents=True, exist_ok=True)
    settings = {"state_dir": str(small), "port": free_port(), "simulated_gpus": 3, "accounts": "shared"}
    ran = subprocess.run(
        [*OWN_MOUNTS, "sh", "-c", ON_A_SMALL_DISK, "sh", small, state, disk, *SERVICE],
        env={**environment(**settings), "SPRINGTIDE_TEST_DISK": str(small)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert ran.returncode == 1, ran.stderr
    said = one_sentence("".join(line for line in ran.stderr.splitlines(True) if " I " not in line))
    assert ("full" in said or "No space left" in said) if disk == "full" else "ead-only" in said


@pytest.mark.parametrize("setting", ["job_disk", "job_memory"])
def test_a_limit_in_another_unit_than_gib_is_refused(refused, setting):
    code, said = refused(**{setting: 50 * 2**20})
    assert code == 2
    assert f"Springtide.{setting} is 52428800; expected a number of GiB from 0 up to 1048576." in said


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_state_directory_that_cannot_be_is_said_plainly(refused, tmp_path, place):
    (tmp_path / "file").write_text("not a directory")
    code, said = refused(tmp_path / place)
    assert code == 1
    assert str(tmp_path / place) in said


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"port": "http"}, "port"),
        ({"port": 70_000}, "port"),
        ({"build_gpus": -1}, "build_gpus"),
        ({"build_gpus": 4}, "build_gpus"),
        ({"build_gpus": {"simulated": 4}}, "build_gpus"),
        ({"simulated_gpus": {"t4": 0}}, "simulated_gpus"),
        ({"gpu_types": {"a100": ["NVIDIA A100"], "big": ["A100"]}}, "“A100” is declared to be both “a100”"),
        ({"order": "random"}, "order"),
        ({"gracee": 3}, "Did you mean grace?"),
        ({"projects": [{"quota": 1}]}, "name"),
        ({"projects": [{"name": "vision", "quota": -1}]}, "vision"),
        ({"projects": [{"name": "vision", "quotas": 1}]}, "quotas"),
        ({"auth_cache": 600}, "auth_cache"),
        ({"queue_cap": 0}, "queue_cap"),
        ({"queue_cap_per_user": "many"}, "queue_cap_per_user"),
    ],
)
def test_a_wrong_setting_is_named(refused, settings, words):
    code, said = refused(**settings)
    assert code == 2
    assert words in said


def test_without_a_hub_it_says_how_to_get_one(monkeypatch, capfd):
    for name in environment():
        if name.startswith(("JUPYTERHUB", "SPRINGTIDE")):
            monkeypatch.delenv(name, raising=False)
    code, said = main([]), one_sentence(capfd.readouterr().err)
    assert code == 2
    assert "springtide up" in said


@pytest.mark.parametrize("text", ["{", "[]", "3"])
def test_settings_that_are_no_json_object_are_said_plainly(monkeypatch, capfd, text):
    monkeypatch.setenv("SPRINGTIDE_CONFIG", text)
    assert main([]) == 2
    assert "SPRINGTIDE_CONFIG" in one_sentence(capfd.readouterr().err)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "no configuration file"),
        ("c.Springtide.port = (", "config.py"),
        ("c.Springtide.prot = 1", "mean port?"),
    ],
)
def test_a_settings_file_that_cannot_be_read_is_said_plainly(refused, tmp_path, text, words):
    file = tmp_path / "config.py"
    if text is not None:
        file.write_text(text)
    code, said = refused(config_file=str(file))
    assert code == 2
    assert words in said


def test_what_is_handed_over_goes_before_the_file(tmp_path):
    file = tmp_path / "config.py"
    file.write_text("c.Springtide.projects = {'speech': {'quota': 1}}\nc.Springtide.grace = 5\n")
    app = Springtide()
    app.configure_from(json.dumps({"config_file": str(file), "grace": 7}), ["--port=8123"])
    setup = app.setup()
    assert (setup.projects, setup.engine.policy.grace, setup.settings.port) == ({"speech": {"quota": 1}}, 7, 8123)


def test_it_leaves_when_the_hub_that_started_it_is_killed(tmp_path):
    """The middle process plays the hub: it starts the service and is killed without a chance to stop it."""
    port = free_port()
    settings = {"state_dir": str(tmp_path / "state"), "port": port, "simulated_gpus": 3}
    middle = "import subprocess, sys; subprocess.Popen(sys.argv[1:]).wait()"
    hub = subprocess.Popen(
        [sys.executable, "-c", middle, *SERVICE], env=environment(**settings), stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + PATIENCE_S
    while not answers(f"http://127.0.0.1:{port}/services/springtide/api/v1"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    (service,) = psutil.Process(hub.pid).children()
    os.kill(hub.pid, signal.SIGKILL)
    hub.wait()
    service.wait(PATIENCE_S)
    assert not service.is_running()


def test_a_new_service_waits_for_a_former_one_to_leave_and_goes_on_where_it_was(services):
    first = services(projects=[{"name": "vision", "quota": 2}]).ready()
    second = services(projects=[{"name": "other", "quota": 1}], port=first.port, takeover_wait=30)
    second.url = first.url
    assert answers(first.url)
    first.kill()
    second.ready()
    metrics = httpx.get(f"{second.url}/metrics", timeout=PATIENCE_S, trust_env=False, verify=False).text
    assert 'springtide_project_quota_gpus{gpu_type="simulated",project="vision"} 2.0' in metrics
    assert "other" not in metrics


PROJECTS = [{"name": "vision", "quota": 1}]


def test_an_empty_store_where_a_pool_has_been_needs_an_admins_word(services, tmp_path):
    state = tmp_path / "state"
    services(state, projects=PROJECTS).ready().stop()
    (state / "springtide.sqlite").unlink()
    for _ in range(2):
        code, said = services(state, projects=PROJECTS).ended()
        assert code == 1
        assert "is empty, but this state directory is that of a pool" in said
    (state / "jobs" / ".epoch").unlink()
    services(state, projects=PROJECTS).ready()


def test_a_service_whose_journal_was_removed_stops_and_loses_nothing(services, tmp_path):
    state = tmp_path / "state"
    first = services(state, projects=PROJECTS).ready()
    (state / "springtide.sqlite-wal").unlink()
    with contextlib.suppress(httpx.TransportError):  # it may have seen that already
        assert httpx.get(f"{first.url}/ready", timeout=PATIENCE_S, trust_env=False).status_code == 503
    code, said = first.ended()
    assert code == 1
    assert "All that was accepted is in the store; the service starts again." in said
    second = services(state).ready()
    metrics = httpx.get(f"{second.url}/metrics", timeout=PATIENCE_S, trust_env=False).text
    assert 'springtide_project_quota_gpus{gpu_type="simulated",project="vision"} 1.0' in metrics
