"""`springtide doctor` on set-ups that are sound, and on ones that are not."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hubs.hub_people import Hub
from hubs.hub_process import HubProcess
from servers.ports import free_port

from springtide.hub_extension.command import main
from springtide.hub_extension.doctor import machine, network
from springtide.hub_extension.doctor.findings import Finding, Status
from springtide.hub_extension.local_hub.single import host_file
from springtide.hub_extension.local_hub.state_dir import StateDir
from springtide.scheduler.executors.accounts import DEFAULT_UIDS, Accounts
from springtide.scheduler.executors.local.limits import Limits
from springtide.scheduler.store import Store

SHARED = "c.Springtide.accounts = 'shared'\nc.Springtide.simulated_gpus = 8\n"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The state directory of a used pool."""
    path = StateDir(tmp_path / "state").path
    StateDir(path).secret("service-token")
    Store.open(f"sqlite:///{path / 'springtide.sqlite'}", path).close()
    return path


def examined(state: Path, *words: str, config: str = SHARED) -> tuple[int, dict[str, dict[str, Any]]]:
    """Return the exit code, and the worst finding of each check."""
    file = state.parent / "config.py"
    file.write_text(config)
    done = CliRunner().invoke(main, ["doctor", "--state-dir", str(state), "--config", str(file), "--json", *words])
    order = list(Status)
    found: dict[str, dict[str, Any]] = {}
    for finding in json.loads(done.stdout):
        before = found.setdefault(finding["check"], finding)
        if order.index(Status(finding["status"])) > order.index(Status(before["status"])):
            found[finding["check"]] = finding
    return done.exit_code, found


def problems(found: dict[str, dict[str, Any]]) -> list[str]:
    return [check for check, finding in found.items() if finding["status"] == "problem"]


def test_a_sound_set_up_has_no_problem(state: Path) -> None:
    code, found = examined(state)
    assert (code, problems(found)) == (0, [])
    assert found["store"]["status"] == "ok"
    assert found["state directory"]["status"] == "ok"
    assert found["GPUs"]["said"] == "All GPUs are simulated: 8 GPUs simulated (train)."
    assert found["accounts"]["status"] == "note"


def test_it_is_told_in_words_with_what_to_do(state: Path) -> None:
    state.chmod(0o755)
    done = CliRunner().invoke(main, ["doctor", "--state-dir", str(state)])
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("PROBLEM  state directory: Other"))
    assert lines[at + 1] == f"         → chmod go-rw {state}"
    assert lines[-1].endswith("checks.")


def test_a_configuration_that_cannot_be_loaded_is_a_problem(state: Path, tmp_path: Path) -> None:
    config = tmp_path / "bad.py"
    config.write_text("c.Springtide.port = 8090\nraise RuntimeError('half a line')\n")
    done = CliRunner().invoke(main, ["doctor", "--state-dir", str(state), "--config", str(config)])
    assert done.exit_code == 1
    assert f"PROBLEM  settings: The configuration file {config} cannot be read: half a line." in done.stdout
    assert "can start" not in done.stdout


def test_the_hub_that_runs_is_sound(hub: Hub) -> None:
    code, found = examined(hub.state_dir, "--url", f"{hub.url}/services/springtide", config="")
    assert (code, problems(found)) == (0, [])
    assert {check: found[check]["status"] for check in ("hub", "proxy", "springtide")} == dict.fromkeys(
        ("hub", "proxy", "springtide"), "ok"
    )


@pytest.mark.hub
def test_a_hub_with_addresses_of_its_configuration_is_sound_and_has_them(tmp_path: Path) -> None:
    ports = {name: free_port() for name in ("springtide", "hub", "proxy")}
    config = (
        f"c.Springtide.port = {ports['springtide']}\nc.JupyterHub.hub_port = {ports['hub']}\n"
        f"c.ConfigurableHTTPProxy.api_url = 'http://127.0.0.1:{ports['proxy']}'\n"
    )
    hub = HubProcess(tmp_path / "state", config=config)
    try:
        hub.start()
        code, found = examined(hub.state_dir, config=config)
        said = CliRunner().invoke(main, ["doctor", "--state-dir", str(hub.state_dir)]).output
    finally:
        hub.stop()
    assert (code, problems(found)) == (0, [])
    for name, port in ports.items():
        assert f"The {name} answers at http://127.0.0.1:{port}/" in said


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    code, found = examined(tmp_path / "none")
    assert code == 1
    assert "There is no state directory" in found["state directory"]["said"]
    assert not (tmp_path / "none").exists()


def test_secrets_that_others_can_read_are_named(state: Path) -> None:
    (state / "service-token").chmod(0o644)
    code, found = examined(state)
    assert code == 1
    assert found["secrets"]["said"] == "Other accounts may read service-token."


@pytest.mark.root
def test_a_directory_of_another_account_is_named(state: Path) -> None:
    os.chown(state, 12345, -1)
    _, found = examined(state)
    assert "belongs to uid 12345" in found["state directory"]["said"]


def test_a_damaged_store_is_found_with_the_way_back(state: Path) -> None:
    database = state / "springtide.sqlite"
    with database.open("r+b") as file:
        file.seek(4096 * 2)
        file.write(os.urandom(4096 * 20))
    code, found = examined(state)
    assert code == 1
    assert "is damaged" in found["store"]["said"]
    assert "springtide restore" in found["store"]["remedy"]


@pytest.mark.parametrize("name", ["springtide.sqlite", "springtide.sqlite-wal"])
def test_a_store_that_was_removed_while_the_service_runs_is_said(state: Path, name: str) -> None:
    store = Store.open(f"sqlite:///{state / 'springtide.sqlite'}", state)
    (state / name).unlink()
    code, found = examined(state)
    store.close()
    assert code == 1
    assert f"{state / name} was removed while the service runs" in found["store"]["said"]


def test_a_damaged_database_of_the_hub_is_found(state: Path) -> None:
    (state / "hub" / "jupyterhub.sqlite").write_bytes(b"no database " * 100)
    code, found = examined(state)
    assert code == 1
    assert "The hub's database is damaged" in found["hub"]["said"]
    assert "springtide restore" in found["hub"]["remedy"]


@pytest.mark.parametrize("rescued", [False, True])
def test_a_lost_store_is_told_from_one_that_is_still_to_be_made(state: Path, rescued: bool) -> None:
    database = state / "springtide.sqlite"
    database.unlink()
    assert examined(state)[1]["store"]["status"] == "note"
    (state / "jobs").mkdir(mode=0o700)
    (state / "jobs" / ".epoch").write_text('{"epoch": 3}')
    if rescued:
        (state / "springtide.sqlite.rescued-3").touch()
    code, found = examined(state)
    assert code == 1
    assert "is missing or empty" in found["store"]["said"]
    assert found["store"]["remedy"].startswith(f"mv {database}.rescued-3" if rescued else "springtide restore")


def test_settings_with_which_the_service_does_not_start_are_said(state: Path) -> None:
    code, found = examined(state, config="c.Springtide.bild_gpus = 2\n")
    assert code == 1
    assert "Did you mean build_gpus?" in found["settings"]["said"]
    assert "store" not in found


def test_more_build_gpus_than_there_are_is_said(state: Path) -> None:
    code, found = examined(state, config=SHARED + "c.Springtide.build_gpus = 9\n")
    assert (code, problems(found)) == (1, ["GPUs"])


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which another program listens."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def test_a_port_that_another_program_took_is_named(state: Path, taken: int) -> None:
    StateDir(state).note_addresses({"springtide": f"http://127.0.0.1:{taken}/services/springtide"})
    code, found = examined(state)
    assert (code, problems(found)) == (1, ["ports"])
    assert f"another program uses port {taken}" in found["ports"]["said"]
    assert found["hub"]["said"] == f"No hub runs on {state}."


def test_a_service_that_does_not_answer_is_said(state: Path, taken: int) -> None:
    StateDir(state).note_addresses({"hub": "http://127.0.0.1:1/hub/api"})
    with StateDir(state).locked():
        code, found = examined(state)
    assert code == 1
    assert "does not answer" in found["hub"]["said"]


def test_a_cgroup_that_cannot_hold_the_limits_is_said(tmp_path: Path) -> None:
    (tmp_path / "cgroup.subtree_control").write_text("cpu pids\n")
    (found,) = machine.limits(Limits(memory=1 << 30, cgroup=tmp_path / "springtide"))
    assert found.status is Status.PROBLEM
    assert "lacks the controllers memory" in found.said
    (found,) = machine.limits(Limits(processes=10, cgroup=tmp_path / "springtide"))
    assert found.status is Status.OK
    assert not (tmp_path / "springtide").exists()


def test_datasets_that_are_not_there_or_that_anybody_may_change_are_named(state: Path, tmp_path: Path) -> None:
    for name, mode in (("sound", 0o755), ("open", 0o777)):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)
    (tmp_path / "file").write_text("")

    def told(*names: str) -> dict[str, Any]:
        declared = {name: {"path": str(tmp_path / name)} for name in names}
        return examined(state, config=f"{SHARED}\nc.Springtide.datasets = {declared!r}\n")[1]["datasets"]

    assert told("sound")["said"] == "1 declared dataset: each directory is there."
    assert told("sound", "away")["said"].startswith("The dataset away is not found at")
    assert told("sound", "file")["said"].startswith("The dataset file is no directory")
    assert told("sound", "open")["remedy"] == f"chmod o-w {tmp_path / 'open'}"
    assert "datasets" not in examined(state)[1]


@pytest.mark.parametrize(
    ("free", "status"), [(100 << 20, Status.PROBLEM), (20 << 30, Status.NOTE), (900 << 30, Status.OK)]
)
def test_a_disk_that_fills_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, status: Status
) -> None:
    whole = (1000 << 30) // 4096
    disk = os.statvfs_result((4096, 4096, whole, free // 4096, free // 4096, 1000, 900, 900, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _path: disk)
    (found,) = machine.disk(tmp_path)
    assert found.status is status


def test_a_file_system_of_the_network_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_file_system", lambda _path: "nfs4")
    tmp_path.chmod(0o700)
    (found,) = machine.state_directory(tmp_path)
    assert "network file system (nfs4)" in found.said


def test_packages_that_do_not_fit_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = ["click>=99", "nothing-of-this-name>=1", 'aiohttp>=99; extra == "hub"']
    monkeypatch.setattr(machine, "requires", lambda _name: needed)
    (found,) = machine.versions()
    assert found.said.startswith("Other versions are needed: click ")
    assert "nothing-of-this-name is missing" in found.said
    assert "aiohttp" in found.said


def test_the_names_of_notebooks_of_a_hub_that_up_has_started_are_known(state: Path) -> None:
    assert examined(state)[1]["subdomains"]["status"] == "note"
    host_file(state).write_text("http://hub.localhost:8000")
    found = examined(state)[1]["subdomains"]
    assert (found["status"], found["said"]) == ("ok", "hub.localhost and its subdomains have an address.")


def test_of_a_hub_that_is_elsewhere_no_names_are_said(tmp_path: Path) -> None:
    assert "subdomains" not in examined(tmp_path / "not-here")[1]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("", Status.NOTE),
        ("http://hub.localhost:8000", Status.OK),
        ("https://hub.invalid", Status.PROBLEM),
    ],
)
def test_subdomains_need_addresses(host: str, status: Status) -> None:
    (found,) = network.subdomains(host)
    assert found.status is status


def test_few_open_files_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.resource, "getrlimit", lambda _which: (256, 1024))
    (found,) = machine.descriptors()
    assert found.status is Status.PROBLEM


def test_every_problem_says_what_to_do(state: Path) -> None:
    shutil.rmtree(state / "hub")
    state.chmod(0o777)
    _, found = examined(state)
    everything = [Finding(**finding) for finding in found.values()]
    assert [finding for finding in everything if finding.status != "ok" and not finding.remedy] == []


@pytest.mark.root
def test_users_who_share_a_uid_with_another_pool_are_named_and_separated(tmp_path: Path) -> None:
    uid = DEFAULT_UIDS[1] - os.getpid() % 10_000  # no process of another test's pool has it
    config = tmp_path / "config.py"
    config.write_text(f"c.Springtide.uid_registry = {str(tmp_path / 'uids.json')!r}\n")
    for name in ("one", "two"):
        state = tmp_path / name
        state.mkdir(mode=0o711)
        (state / "accounts.json").write_text(json.dumps({"susan": uid}))
        Accounts(state, registry=tmp_path / "uids.json").prepare()

    def accounts_of(name: str) -> dict[str, str]:
        words = ["doctor", "--state-dir", str(tmp_path / name), "--config", str(config), "--json"]
        found = json.loads(CliRunner().invoke(main, words).stdout)
        [finding] = [each for each in found if each["check"] == "accounts"]
        return finding

    wrong = accounts_of("one")
    assert wrong["status"] == "problem"
    assert f"susan has the uid {uid} here, and susan has it in the pool {tmp_path / 'two'}" in wrong["said"]
    assert wrong["remedy"].endswith(f"springtide renumber --state-dir {tmp_path / 'one'}")

    words = ["renumber", "--state-dir", str(tmp_path / "one"), "--config", str(config), "--json"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["susan"]["before"] == uid
    assert [accounts_of(name)["status"] for name in ("one", "two")] == ["ok", "ok"]


def test_in_a_notebook_server_the_set_up_is_not_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTERHUB_USER", "susan")
    monkeypatch.delenv("SPRINGTIDE_URL", raising=False)
    done = CliRunner().invoke(main, ["doctor"])
    assert done.exit_code == 0
    assert "This is a notebook server" in done.stdout
    assert "PROBLEM" not in done.stdout


def test_in_the_pod_of_the_service_the_set_up_is_examined(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/services/springtide/")
    monkeypatch.delenv("JUPYTERHUB_USER", raising=False)
    monkeypatch.chdir(tmp_path)
    assert "This is a notebook server" not in CliRunner().invoke(main, ["doctor"]).stdout
