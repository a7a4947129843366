"""Build notebooks on a real hub: a fixed quota, kept through everything that can happen to hub and service."""

from __future__ import annotations

import os
import signal
from html import unescape

import httpx
import pytest
from hubs.hub_people import Hub, Person, environment, notebook_pid, until
from patience import PATIENCE_S

from springtide.scheduler.wire import WorkspaceRequest

pytestmark = pytest.mark.xdist_group("hub-spawner")

OVER = "susan has a build quota of 1 GPU and holds 1; this workspace asks for 1."
WHO = "An admin of this hub can change that"


@pytest.fixture
def running(susan: Person) -> Person:
    """Susan, with her default notebook on one GPU."""
    if susan.server() is None:
        susan.start({"gpus": 1}).raise_for_status()
    susan.ready()
    return susan


def with_words(person: Person, words: str) -> str:
    """Return the form once the service has answered in time and it has the words."""
    form = unescape(person.browser.get("/hub/spawn").text)
    return form if words in form else ""


def refused(person: Person, server: str) -> httpx.Response | None:
    """Return the answer to the form if the start was refused within the second for which the hub waits."""
    answer = person.send_form("1", server=server)
    return answer if answer.status_code == 409 else None


def test_the_form_shows_what_is_free_and_starts_a_notebook_on_a_gpu_of_its_own(hub: Hub, susan: Person) -> None:
    if susan.server() is not None:
        susan.stop()
    form = until("the form with the quota", lambda: with_words(susan, "Your build quota is"))
    assert "Your build quota is 1 simulated GPU: 0 held by your workspaces, 1 left." in form
    assert "never lent, never taken" in form

    susan.send_form("1").raise_for_status()
    env = environment(susan.ready())
    assert env["CUDA_VISIBLE_DEVICES"] == env["NVIDIA_VISIBLE_DEVICES"]
    with hub.pool() as pool:
        [mine] = [
            cell.uuid
            for node in pool.pool().nodes
            for cell in node.gpus
            if cell.holder is not None and cell.holder.user == "susan"
        ]
    assert env["CUDA_VISIBLE_DEVICES"] == mine

    token = {"Authorization": f"token {env['JUPYTERHUB_API_TOKEN']}"}
    me = httpx.get(f"{env['SPRINGTIDE_URL']}/api/v1/me", headers=token, timeout=PATIENCE_S).json()
    assert (me["name"], me["build_quota"], me["build_held"]) == ("susan", 1, 1)


def test_a_notebook_finds_the_examples_in_its_home(hub: Hub, running: Person) -> None:
    home = hub.state_dir / "homes" / running.name
    assert environment(running.ready())["HOME"] == str(home)
    assert (home / "examples" / "digits").is_dir()


def test_a_second_notebook_over_the_quota_is_refused_on_the_page(running: Person) -> None:
    answer = until("the refusal", lambda: refused(running, "second"))
    assert OVER in unescape(answer.text)
    assert WHO in unescape(answer.text)


def test_a_second_notebook_over_the_quota_is_refused_through_the_api(running: Person) -> None:
    answer = running.start({"gpus": 1}, server="second")
    assert answer.status_code == 409
    assert answer.json()["message"].startswith(OVER)
    assert WHO in answer.json()["message"]
    assert running.server("second") is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"gpus": -1}, "gpus is -1; expected a whole number from 0"),
        ({"gpus": 1.5}, "gpus is 1.5"),
        ({"gpus": True}, "gpus is True"),
        ({"gpus": "1"}, "gpus is “1”"),
        ({"gpus": 10**400}, "gpus is "),
        ({"gpus": 2}, "build quota of 1 GPU"),
        ({"gpus": 0, "cmd": ["sh"]}, "Unknown option “cmd”"),
    ],
)
def test_options_through_the_api_are_checked(joe: Person, options: dict[str, object], says: str) -> None:
    answer = joe.start(options)
    assert answer.status_code in {400, 409}
    assert says in answer.json()["message"]
    assert joe.server() is None


def test_a_notebook_without_gpus_starts_beyond_the_quota_and_sees_none(hub: Hub, running: Person) -> None:
    running.start({"gpus": 0}, server="plain").raise_for_status()
    env = environment(running.ready("plain"))
    assert env["CUDA_VISIBLE_DEVICES"] == ""
    assert env["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert env["SPRINGTIDE_DATASETS"] == '{"digits": "/srv/digits"}'
    running.stop("plain")
    assert hub.held() == {("susan", ""): 1}


def test_gpus_reserved_for_a_notebook_that_the_hub_does_not_know_keep_nobody_waiting(
    hub: Hub, joe: Person
) -> None:
    with hub.pool() as pool:
        pool.reserve_workspace(WorkspaceRequest(user="joe", server="gone", gpus=1))
    joe.start({"gpus": 1}).raise_for_status()
    joe.ready()
    assert (hub.held().get(("joe", "gone")), hub.held()["joe", ""]) == (None, 1)
    joe.stop()


def test_a_service_that_was_killed_keeps_what_is_held_and_gives_back_what_notebooks_left(
    hub: Hub, running: Person
) -> None:
    with hub.pool() as pool:
        pool.reserve_workspace(WorkspaceRequest(user="joe", server="gone", gpus=1))
    killed = hub.service_pid()
    os.kill(killed, signal.SIGKILL)
    hub.service_after(killed)
    until("its GPU", lambda: hub.held() == {("susan", ""): 1})
    assert running.server() is not None


def test_a_notebook_that_cannot_start_says_why_and_holds_nothing(hub: Hub, joe: Person) -> None:
    home = hub.state_dir / "homes" / "joe" / ".jupyter"
    home.mkdir(parents=True, exist_ok=True)
    broken = home / "jupyter_server_config.py"
    broken.write_text("raise SystemExit('the disk is made of cheese')\n")
    owner = home.parent.stat().st_uid
    for path in (home, broken):
        os.chown(path, owner, owner)
    answer = joe.start({"gpus": 1})
    broken.unlink()
    assert answer.status_code == 500
    assert "The notebook server ended with exit code 1 before it was ready." in answer.json()["message"]
    assert "the disk is made of cheese" in answer.json()["message"]
    until("the release", lambda: ("joe", "") not in hub.held())


def still_held(hub: Hub, running: Person, pid: int) -> None:
    """Check that the notebook is the one from before the hub's start, and keeps its GPU and its token."""
    before = environment(pid)
    assert running.ready() == pid
    assert hub.held() == {("susan", ""): 1}
    assert running.start({"gpus": 1}, server="second").json()["message"].startswith(OVER)
    token = {"Authorization": f"token {before['JUPYTERHUB_API_TOKEN']}"}
    assert (
        httpx.get(f"{before['SPRINGTIDE_URL']}/api/v1/me", headers=token, timeout=PATIENCE_S).json()["name"]
        == "susan"
    )


def test_notebook_and_reservation_outlive_a_hub_that_is_stopped(hub: Hub, running: Person) -> None:
    pid = running.ready()
    hub.interrupt()
    os.kill(pid, 0)
    hub.start()
    still_held(hub, running, pid)


def test_notebook_and_reservation_outlive_a_hub_that_is_killed_unless_the_notebook_dies_meanwhile(
    hub: Hub, running: Person, joe: Person
) -> None:
    pid = running.ready()
    joe.start({"gpus": 1}).raise_for_status()
    dies = joe.ready()
    hub.kill()
    os.kill(pid, 0)
    os.kill(dies, signal.SIGKILL)
    hub.start()
    until("its GPU", lambda: ("joe", "") not in hub.held())
    assert notebook_pid(hub.state_dir, "joe") is None
    still_held(hub, running, pid)


def test_stopping_a_notebook_gives_its_gpu_back(hub: Hub, running: Person) -> None:
    running.stop()
    until("the release", lambda: hub.held() == {})


def test_a_start_waits_for_a_service_that_is_away_and_says_so(hub: Hub, susan: Person) -> None:
    if susan.server() is not None:
        susan.stop()
    service = hub.service_pid()
    os.kill(service, signal.SIGSTOP)
    form = unescape(susan.browser.get("/hub/spawn").text)
    assert "the Springtide service is restarting" in form
    susan.send_form("1").raise_for_status()
    told: list[str] = []
    with susan.api.stream("GET", f"{susan.path()}/progress", timeout=PATIENCE_S) as events:
        for line in events.iter_lines():
            told.append(line)
            if "Waiting for the Springtide service" in line:
                os.kill(service, signal.SIGKILL)
    assert any("Waiting for the Springtide service" in line for line in told)
    assert any("Your workspace is starting with 1 simulated GPU" in line for line in told)
    susan.ready()
    hub.service_after(service)
    assert hub.held() == {("susan", ""): 1}


def test_the_gpu_of_a_notebook_that_died_comes_back(hub: Hub, running: Person) -> None:
    os.kill(running.ready(), signal.SIGKILL)
    until("its GPU", lambda: hub.held() == {})
    until("its end", lambda: running.server() is None)
