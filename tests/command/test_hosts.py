"""A hub on one machine keeps strangers out: no password is public, and no foreign host name is answered."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import httpx
import pytest
from hubs.hub_people import Hub
from patience import PATIENCE_S
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from springtide.hub_extension.web.hosts import LOOPBACK_NAMES, foreign
from springtide.scheduler.client import Client, Unreachable
from springtide.scheduler.wire import Submission

ON_ONE_MACHINE = pytest.mark.xdist_group("hub-command")
FOREIGN = ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:{port}", "evil.example:{port}"]


@pytest.fixture
def asking() -> Iterator[httpx.Client]:
    """A client without TLS, whose context takes longer than a request."""
    with httpx.Client(timeout=PATIENCE_S, trust_env=False, verify=False) as client:
        yield client


def log_in(hub: Hub, user: str, password: str, **headers: str) -> httpx.Response:
    """Send the login form."""
    with httpx.Client(
        base_url=hub.url, headers=headers, timeout=PATIENCE_S, trust_env=False, verify=False
    ) as browser:
        page = browser.get("/hub/login")
        form = {"username": user, "password": password, "_xsrf": page.cookies.get("_xsrf", "")}
        return browser.post("/hub/login", data=form)


@ON_ONE_MACHINE
@pytest.mark.parametrize("user", ["susan", "admin"])
@pytest.mark.parametrize("password", ["springtide", "", "susan", "admin", "wrong"])
def test_a_password_that_somebody_could_know_is_refused(hub: Hub, user: str, password: str) -> None:
    answer = log_in(hub, user, password)
    assert answer.status_code == 403
    assert "Invalid username or password" in answer.text
    assert log_in(hub, user, hub.password).status_code == 302


@ON_ONE_MACHINE
def test_the_password_is_written_where_only_the_owner_reads_it(hub: Hub) -> None:
    assert (hub.state_dir / "password").stat().st_mode & 0o777 == 0o600
    assert hub.password not in (hub.state_dir / "hub/jupyterhub_config.py").read_text()
    assert hub.password not in (hub.state_dir / "hub/hub.log").read_text()


@ON_ONE_MACHINE
def test_the_login_page_says_who_can_log_in_and_where_the_password_is(hub: Hub) -> None:
    page = httpx.get(f"{hub.url}/hub/login", timeout=PATIENCE_S, trust_env=False).text
    told = re.sub(r"<[^>]+>|\s+", " ", page[page.index('data-testid="demonstration"') :])
    assert re.search(r"log in as *susan *, *joe *, *jemma *, *admin *\.", told)
    assert "the file  password  of the state directory" in told
    assert hub.password not in page


@ON_ONE_MACHINE
@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_host_name_is_refused_by_proxy_hub_and_service(
    hub: Hub, asking: httpx.Client, name: str
) -> None:
    ports = json.loads((hub.state_dir / "ports.json").read_text())
    for port, path in [
        (hub.port, "/hub/login"),
        (hub.port, "/services/springtide/api/v1/pool"),
        (ports["hub"], "/hub/login"),
        (ports["hub"], "/hub/api/"),
        (ports["springtide"], "/services/springtide/api/v1/pool"),
        (ports["springtide"], "/services/springtide/pool"),
    ]:
        host = name.format(port=port)
        for method in ("GET", "POST"):
            answer = asking.request(method, f"http://127.0.0.1:{port}{path}", headers={"Host": host})
            assert answer.status_code == 421, (port, path, answer.text)
            assert f"under the name “{host.partition(':')[0]}”" in answer.text
            assert "--allowed-host" in answer.text
            assert "Set-Cookie" not in answer.headers


@ON_ONE_MACHINE
def test_a_login_under_a_foreign_host_name_is_refused(hub: Hub) -> None:
    assert log_in(hub, "susan", hub.password, Host="evil.example").status_code == 421


@ON_ONE_MACHINE
async def test_a_websocket_under_a_foreign_host_name_is_refused(hub: Hub) -> None:
    request = HTTPRequest(f"ws://127.0.0.1:{hub.port}/user/susan/x", headers={"Host": "evil.example"})
    request.connect_timeout = request.request_timeout = PATIENCE_S
    with pytest.raises(HTTPClientError) as refused:
        await websocket_connect(request)
    assert refused.value.code == 421


@ON_ONE_MACHINE
@pytest.mark.parametrize("name", ["localhost:{port}", "LOCALHOST", "127.0.0.1:{port}", "[::1]:{port}"])
def test_names_of_the_loopback_address_are_allowed(hub: Hub, name: str) -> None:
    assert log_in(hub, "susan", hub.password, Host=name.format(port=hub.port)).status_code == 302


@pytest.mark.parametrize(
    ("allowed", "name", "refused"),
    [
        (LOOPBACK_NAMES, "localhost", False),
        (LOOPBACK_NAMES, "localhost.", True),
        (LOOPBACK_NAMES, "xlocalhost", True),
        (LOOPBACK_NAMES, "127x0.0.1", True),
        (LOOPBACK_NAMES, "", True),
        (["Hub.Example.org"], "hub.example.org", False),
        (["hub.example.org"], "joe.hub.example.org", True),
        ([".hub.example.org"], "joe.hub.example.org", False),
        ([".hub.example.org"], "hub.example.org", False),
        ([".hub.example.org"], "evilhub.example.org", True),
        ([".hub.example.org"], "hub.example.org.evil.example", True),
    ],
)
def test_a_name_is_compared_as_a_whole(allowed: list[str], name: str, refused: bool) -> None:
    assert (re.fullmatch(foreign(allowed), name) is not None) is refused


def test_the_hub_says_whose_answer_it_is_where_no_service_is_registered_yet(hub: Hub) -> None:
    with Client(f"{hub.url}/services/away", "token") as client:
        with pytest.raises(Unreachable, match="the hub answers in the service's place"):
            client.job("j1")
        with pytest.raises(Unreachable, match="the hub answers in the service's place"):
            client.submit(Submission(argv=["true"]))
