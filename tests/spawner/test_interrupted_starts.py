"""A hub that ends while a notebook starts, or loses its database: no GPU is ever given to two notebooks.

The hub is a real `springtide up`. Its configuration sends a signal to the hub at a step of a notebook's start.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hubs.hub_people import Hub, Person, environment, notebook_pid, until
from hubs.hub_process import WITHOUT_PAGES, processes_of
from hubs.hub_steps import HUB_STARTS, Plan, configuration
from patience import PATIENCE_S

from springtide.scheduler.executors.notebooks import VARIABLE
from springtide.spawner.processes import identity

pytestmark = pytest.mark.xdist_group("hub-interrupted")


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("interrupted") / "planned"


@pytest.fixture(scope="module")
def running(planned: Path) -> Iterator[list[Hub]]:
    """The hub that runs, if any."""
    hubs: list[Hub] = []
    yield hubs
    for hub in hubs:
        hub.stop()


@pytest.fixture
def hub(planned: Path, running: list[Hub], tmp_path: Path) -> Iterator[Hub]:
    """A hub without notebooks: that of the test before, unless that test failed and left it otherwise."""
    if not running:
        planned.unlink(missing_ok=True)
        config = (
            configuration(planned, tmp_path / "state")
            + "\nc.BuildQuota.patience = 100\nc.Spawner.poll_interval = 1\n"
            + WITHOUT_PAGES
        )
        started = Hub(tmp_path / "state", config)
        started.start()
        running.append(started)
    (hub,) = running
    yield hub
    if not (hub.answers() and hub.held() == {} and gpus_in_use(hub) == []):
        running.clear()
        hub.stop()


@pytest.fixture
def people(hub: Hub) -> Iterator[tuple[Person, Person]]:
    """Susan and Joe, without notebooks at the beginning and the end."""
    with contextlib.ExitStack() as stack:
        both = Person(hub, "susan"), Person(hub, "joe")
        for person in both:
            stack.callback(person.close)
        yield both
        for person in both:
            if person.server() is not None:
                person.stop()
        until("the release", lambda: hub.held() == {})
        until("the end of all notebooks", lambda: gpus_in_use(hub) == [])


def gpus_in_use(hub: Hub) -> list[tuple[str, str]]:
    """Return GPU and user of each notebook server that runs, from the environments of the processes."""
    found = []
    for pid in processes_of(hub.state_dir):
        with contextlib.suppress(OSError, ValueError):
            env = environment(pid)
            leads = os.getsid(pid) == pid and b"jupyterhub.singleuser" in Path(f"/proc/{pid}/cmdline").read_bytes()
            if leads and env.get("CUDA_VISIBLE_DEVICES"):
                found.append((env["CUDA_VISIBLE_DEVICES"], env["JUPYTERHUB_USER"]))
    return sorted(found)


def none_twice(hub: Hub) -> bool:
    gpus = [gpu for gpu, _ in gpus_in_use(hub)]
    return len(set(gpus)) == len(gpus)


def interrupted(hub: Hub, planned: Path, person: Person, step: str, name: str = "SIGKILL") -> None:
    """Start a notebook, and wait for the end of the hub, which gets the signal at the step."""
    Plan(step, "hub", name).write(planned)
    with contextlib.suppress(Exception):
        person.start({"gpus": 1})
    hub.wait()
    assert not planned.exists()


def settled(person: Person) -> bool:
    """Return whether the hub has found the notebook again, or given it up."""
    server = person.server()
    return server is None or bool(server["ready"])


def others_get_other_gpus(hub: Hub, susan: Person, joe: Person) -> None:
    """The GPU of Susan's notebook is not Joe's, whether it was found again or has ended; stopping frees it."""
    joe.start({"gpus": 1}).raise_for_status()
    joe.ready()
    assert none_twice(hub)
    until("a decision on Susan's notebook", lambda: settled(susan))
    assert none_twice(hub)
    if susan.server() is None:
        assert [user for _, user in gpus_in_use(hub)] == ["joe"]
        susan.start({"gpus": 1}).raise_for_status()
    susan.ready()
    assert sorted(user for _, user in gpus_in_use(hub)) == ["joe", "susan"]
    assert none_twice(hub)
    susan.stop()
    until("the end of the process", lambda: notebook_pid(hub.state_dir, "susan") is None)
    until("the release", lambda: hub.held() == {("joe", ""): 1})


@pytest.mark.parametrize("step", HUB_STARTS)
def test_a_hub_killed_at_any_step_of_a_start_gives_no_gpu_twice(
    hub: Hub, planned: Path, people: tuple[Person, Person], step: str
) -> None:
    susan, joe = people
    interrupted(hub, planned, susan, step)
    hub.start()
    others_get_other_gpus(hub, susan, joe)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_hub_stopped_while_a_notebook_starts_finds_it_again(
    hub: Hub, planned: Path, people: tuple[Person, Person], name: str
) -> None:
    susan, _ = people
    interrupted(hub, planned, susan, "waiting for the port", name)
    pid = until("the process", lambda: notebook_pid(hub.state_dir, "susan"))
    hub.start()
    assert susan.ready() == pid
    assert [user for _, user in gpus_in_use(hub)] == ["susan"]
    assert hub.held() == {("susan", ""): 1}


@pytest.mark.parametrize("victim", ["service", "proxy"])
def test_a_service_or_proxy_killed_while_a_notebook_starts_gives_no_gpu_twice(
    hub: Hub, people: tuple[Person, Person], victim: str
) -> None:
    susan, joe = people
    killed = hub.service_pid() if victim == "service" else int((hub.state_dir / "hub" / "proxy.pid").read_text())
    answer = susan.start({"gpus": 1})
    os.kill(killed, signal.SIGKILL)
    answer.raise_for_status()
    until("the pool's service", hub.answers, seconds=2 * PATIENCE_S)
    susan.wait_until_ready()
    others_get_other_gpus(hub, susan, joe)


def lose(hub: Hub, *files: str) -> None:
    """Kill the hub, delete files of its state directory, and start it again."""
    service = hub.service_pid()
    hub.kill()
    until("the end of the service", lambda: identity(service) is None)
    for pattern in files:
        found = list(hub.state_dir.glob(pattern))
        assert found, pattern
        for file in found:
            file.unlink()
    hub.start()


HUB_STORE = "hub/jupyterhub.sqlite*"
POOL_STORE = ("springtide.sqlite*", "jobs/.epoch")
"""The pool's store, and the file that an admin removes to begin with an empty one."""


@pytest.mark.parametrize("files", [(HUB_STORE,), (HUB_STORE, *POOL_STORE)], ids=["hub", "hub-and-pool"])
def test_a_notebook_that_the_hub_has_forgotten_keeps_its_gpu_and_is_shown_until_it_ends(
    hub: Hub, files: tuple[str, ...]
) -> None:
    with contextlib.closing(Person(hub, "susan")) as susan:
        susan.start({"gpus": 1}).raise_for_status()
        pid = susan.ready()
    lose(hub, *files)
    with (
        contextlib.closing(Person(hub, "susan")) as susan,
        contextlib.closing(Person(hub, "joe")) as joe,
        contextlib.closing(Person(hub, "admin")) as admin,
    ):
        assert susan.server() is None
        os.kill(pid, 0)
        joe.start({"gpus": 1}).raise_for_status()
        joe.ready()
        assert sorted(user for _, user in gpus_in_use(hub)) == ["joe", "susan"]
        assert none_twice(hub)
        assert hub.held() == {("joe", ""): 1, ("susan", ""): 1}

        shown = until("the notebook on the page", lambda: unknown(admin))
        assert (shown["user"], shown["gpus"]) == ("susan", 1)
        assert str(pid) in shown["place"]
        found = doctor(hub)
        assert f"process {pid}" in found
        assert "susan" in found
        assert "is not known to the hub" in (hub.state_dir / "hub" / "hub.log").read_text()

        susan.start({"gpus": 1}).raise_for_status()
        assert susan.ready() != pid
        assert identity(pid) is None
        assert none_twice(hub)
        susan.stop()
        joe.stop()
        until("the release", lambda: hub.held() == {})


def test_an_admin_ends_a_notebook_that_the_hub_has_forgotten(hub: Hub) -> None:
    with contextlib.closing(Person(hub, "susan")) as susan:
        susan.start({"gpus": 1}).raise_for_status()
        pid = susan.ready()
    lose(hub, HUB_STORE)
    with contextlib.closing(Person(hub, "admin")) as admin, contextlib.closing(Person(hub, "joe")) as joe:
        until("the notebook on the page", lambda: unknown(admin))
        assert pool_api(joe, "POST", "/workspaces/susan/stop").status_code == 403
        os.kill(pid, 0)
        pool_api(admin, "POST", "/workspaces/susan/stop").raise_for_status()
        assert identity(pid) is None
        assert hub.held() == {}
        assert unknown(admin) is None


@pytest.mark.parametrize("restarted", [False, True], ids=["its own hub", "a later hub"])
def test_a_gpu_is_free_only_when_all_that_the_notebook_started_has_ended(
    hub: Hub, people: tuple[Person, Person], restarted: bool
) -> None:
    """As terminals do that outlive a server which was killed; the server is over, whatever it has left behind."""
    susan, _ = people
    susan.start({"gpus": 1}).raise_for_status()
    server = susan.ready()
    uid = Path(f"/proc/{server}").stat().st_uid
    ignores = ["sh", "-c", "trap '' HUP TERM; echo; exec sleep 600"]
    left = subprocess.Popen(
        ignores, env=environment(server), user=uid, extra_groups=[], start_new_session=True, stdout=subprocess.PIPE
    )
    assert left.stdout is not None
    left.stdout.readline()
    if restarted:
        lose(hub)
        susan.wait_until_ready()
    os.kill(server, signal.SIGKILL)
    until("the release", lambda: hub.held() == {})
    assert left.poll() == -signal.SIGKILL
    until("the end for the hub", lambda: susan.server() is None)


def unknown(person: Person) -> dict[str, Any] | None:
    """Return the workspace that runs and that the hub does not know, as the pool's API shows it."""
    items = pool_api(person, "GET", "/workspaces?everybody=1").json()["items"]
    return next((item for item in items if item["state"] == "unknown"), None)


def pool_api(person: Person, method: str, path: str) -> httpx.Response:
    return person.api.request(method, f"{person.hub.url}/services/springtide/api/v1{path}")


def doctor(hub: Hub) -> str:
    command = [
        sys.executable,
        "-m",
        "springtide",
        "doctor",
        "--state-dir",
        str(hub.state_dir),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False).stdout


def test_the_mark_of_a_notebook_is_no_variable_of_its_jobs(hub: Hub, people: tuple[Person, Person]) -> None:
    susan, _ = people
    susan.start({"gpus": 0}).raise_for_status()
    env = environment(susan.ready())
    assert VARIABLE in env
    body = {"argv": ["sleep", "600"], "env": {VARIABLE: env[VARIABLE]}, "cwd": "/"}
    job = pool_api_json(susan, body)
    try:
        pid = until("the job", lambda: job_pid(hub, job))
        assert VARIABLE not in environment(pid)
        susan.stop()
        os.kill(pid, 0)
    finally:
        pool_api(susan, "POST", f"/jobs/{job}/cancel").raise_for_status()


def pool_api_json(person: Person, body: dict[str, Any]) -> str:
    answer = person.api.post(f"{person.hub.url}/services/springtide/api/v1/jobs", json=body)
    answer.raise_for_status()
    return str(answer.json()["id"])


def job_pid(hub: Hub, job: str) -> int | None:
    for pid in processes_of(hub.state_dir):
        with contextlib.suppress(OSError, ValueError):
            argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if argv[0].endswith(b"sleep") and environment(pid).get("SPRINGTIDE_JOB_ID") == job:
                return pid
    return None
