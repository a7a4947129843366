"""Workspaces on a real hub: an idle one is stopped after a notification, one with a running program is not."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from html import unescape
from typing import Any, TypeVar

import httpx
import pytest
from hubs.hub_people import Hub, Person, until
from hubs.kernel_notebook import KernelNotebook
from patience import PATIENCE_S

pytestmark = pytest.mark.xdist_group("hub-spawner")

T = TypeVar("T")
QUICK = {"tell_after": 3.0, "notice": 2.0}
SOON = {"tell_after": 3.0, "notice": 15.0}
LATER = {"tell_after": 3.0, "notice": 3_600.0}


@pytest.fixture
def admin(hub: Hub) -> Iterator[httpx.Client]:
    """Return the API of the pool for its administrator; no rule is left behind."""
    with api(hub, "admin") as client:
        yield client
        set_rule(client, None)
        set_rule(client, None, scope="person", name="susan")


def api(hub: Hub, user: str) -> httpx.Client:
    headers = {"Authorization": f"token {hub.token(user)}"}
    return httpx.Client(base_url=f"{hub.url}/services/springtide/api/v1", headers=headers, timeout=PATIENCE_S)


def set_rule(client: httpx.Client, rule: dict[str, float] | None, **whose: str) -> None:
    client.patch("/idle-rules", json={"rule": rule, **whose}).raise_for_status()


def workspace(client: httpx.Client) -> dict[str, Any]:
    """Return how the person's default workspace is used."""
    [found] = client.get("/workspaces").raise_for_status().json()["items"]
    return found["idle"]


def is_busy(client: httpx.Client) -> bool:
    return bool(workspace(client)["busy"])


def running(person: Person) -> Person:
    if person.server() is None:
        person.start({"gpus": 1}).raise_for_status()
    person.wait_until_ready()
    return person


def calmly(condition: Callable[[], T]) -> Callable[[], T]:
    """Return a condition that takes a second: the awaited change takes many, and asking costs the hub."""

    def later() -> T:
        threading.Event().wait(1.0)
        return condition()

    return later


def test_an_idle_workspace_is_stopped_and_a_busy_kernel_or_terminal_keeps_its_own(
    hub: Hub, admin: httpx.Client, susan: Person, joe: Person, jemma: Person
) -> None:
    running(susan)
    with KernelNotebook(hub.url, "susan", hub.token("susan")) as notebook:
        notebook.start_kernel()
        notebook.begin("import time; time.sleep(3_000)")
    running(jemma)
    with KernelNotebook(hub.url, "jemma", hub.token("jemma")) as notebook:
        notebook.type_into_terminal("sleep 3000 & echo typed-$((40 + 2))\r", "typed-42")
    for person in (susan, jemma):
        with api(hub, person.name) as client:
            until(
                f"a report of {person.name}'s workspace", calmly(partial(is_busy, client)), seconds=2 * PATIENCE_S
            )
    set_rule(admin, QUICK)
    running(joe)
    until("the end of joe's notebook", calmly(lambda: joe.server() is None), seconds=2 * PATIENCE_S)
    until("joe's GPU", lambda: ("joe", "") not in hub.held())
    with api(hub, "joe") as client:
        [stopped] = client.get("/workspaces").json()["stopped"]
        assert stopped["gpus"] == 1
    form = unescape(joe.browser.get("/hub/spawn").text)
    assert "Your workspace was stopped because its 1 GPU had not been used for" in form
    for person in (susan, jemma):
        with api(hub, person.name) as client:
            used = workspace(client)
            assert (used["known"], used["busy"], used["told"]) == (True, True, False)
        assert person.server() is not None
    entries = [each for each in admin.get("/audit").json()["items"] if each["what"] == "workspace.stop"]
    assert [(each["who"], each["subject"]) for each in entries] == [("springtide", "joe")]
    for person in (susan, jemma):
        person.stop()


def test_what_was_told_outlives_the_service_and_keep_postpones_the_stop(
    hub: Hub, admin: httpx.Client, susan: Person
) -> None:
    set_rule(admin, SOON, scope="person", name="susan")
    running(susan)
    with api(hub, "susan") as client:
        until("the notice", calmly(lambda: workspace(client)["told"]), seconds=2 * PATIENCE_S)
        set_rule(admin, LATER, scope="person", name="susan")
        told = until("the later stop", lambda: (now := workspace(client))["stops"] > time.time() + 1_800 and now)
        killed = hub.service_pid()
        notebook = susan.ready()
        os.kill(notebook, signal.SIGSTOP)
        os.kill(killed, signal.SIGKILL)
        hub.service_after(killed)
        assert not workspace(client)["known"], "until its notebook server reports again"
        os.kill(notebook, signal.SIGCONT)
        again = until(
            "a report", calmly(lambda: workspace(client)["known"] and workspace(client)), seconds=2 * PATIENCE_S
        )
        assert (again["told"], again["stops"]) == (True, told["stops"])
        set_rule(admin, {"tell_after": 3_600.0, "notice": 60.0}, scope="person", name="susan")
        client.post("/workspaces/susan/keep").raise_for_status()
        kept = workspace(client)
        assert (kept["told"], kept["stops"]) == (False, None)
    susan.stop()
