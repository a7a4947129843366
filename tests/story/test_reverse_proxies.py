"""The configurations of docs/reverse-proxy.md, each by the real program before a real hub, in a real browser."""

from __future__ import annotations

import asyncio
import copy
import re
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import yaml
from browsers.browser_people import Person
from clusters.certificates import write_server_certificate
from hubs import unpacked_programs
from hubs.hub_people import Hub, until
from hubs.hub_people import Person as Program
from hubs.hub_process import ONE_HOST_NAME, WITHOUT_PAGES
from patience import PATIENCE_S
from playwright.sync_api import Browser, expect
from servers.ports import free_port
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

pytestmark = [pytest.mark.hub, pytest.mark.browser, pytest.mark.xdist_group("reverse-proxies")]

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "reverse-proxy.md"
NAME = "hub.example.org"
RUN: dict[str, Callable[[Path, str, Path], AbstractContextManager[Path]]] = {
    "nginx": unpacked_programs.nginx,
    "caddy": unpacked_programs.caddy,
}


@dataclass(frozen=True)
class Front:
    """A hub by its address behind a reverse proxy, with the certificate that its users trust."""

    hub: Hub
    certificate: Path

    @property
    def url(self) -> str:
        return self.hub.url

    @property
    def trusted(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.certificate)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("behind") / "state", ONE_HOST_NAME + WITHOUT_PAGES)
    try:
        hub.start()
        yield hub
    finally:
        hub.stop()


@pytest.fixture(scope="module")
def joe(hub: Hub) -> str:
    """The token of joe, whose notebook runs."""
    joe = Program(hub, "joe")
    joe.start({"gpus": 0}).raise_for_status()
    joe.wait_until_ready()
    joe.close()
    return joe.token


@pytest.fixture(scope="module", params=list(RUN))
def front(request: pytest.FixtureRequest, hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    name = request.param
    program = unpacked_programs.find(name)
    if program is None:
        pytest.fail(f"There is no {name} on this machine: run `make tools`")
    directory, port = tmp_path_factory.mktemp(name), free_port()
    certificate, key = directory / "cert.pem", directory / "key.pem"
    write_server_certificate(certificate, key)
    behind = copy.copy(hub)
    behind.url = f"https://localhost:{port}"
    front = Front(behind, certificate)
    text = _configuration(name, port=port, hub=hub.port, certificate=certificate, key=key)
    with RUN[name](program, text, directory) as log:

        def answers() -> bool:
            try:
                return httpx.get(f"{front.url}/hub/login", verify=front.trusted).status_code == 200
            except httpx.HTTPError:
                return False

        until(f"{name}, whose log is {log}", answers)
        yield front


def _configuration(name: str, *, port: int, hub: int, certificate: Path, key: Path) -> str:
    """The example of the page, for this port, hub and certificate."""
    found = re.search(rf"```{name}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found, name
    replaced = {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "/etc/ssl/certs/hub.example.org.pem": str(certificate),
        "/etc/ssl/private/hub.example.org.key": str(key),
        "127.0.0.1:8000": f"127.0.0.1:{hub}",
        f"{NAME} {{": f"https://localhost:{port} {{\n\ttls {certificate} {key}",
        NAME: "localhost",
    }
    text = found.group(1)
    for old, new in replaced.items():
        text = text.replace(old, new)
    return text


def test_people_log_in_and_pages_follow_the_pool(front: Front, browser: Browser) -> None:
    susan = Person.log_in(browser, front.hub, "susan", any_certificate=True)
    susan.tab.goto(f"{front.url}/services/springtide/pool")
    expect(susan.tab.get_by_role("heading", name="Pool").first).to_be_visible()
    assert susan.tab.evaluate("isSecureContext")
    cookies = {cookie["name"]: cookie for cookie in susan.tab.context.cookies()}
    assert cookies["jupyterhub-session-id"]["secure"], "the hub knows that browsers come by HTTPS"


def test_an_event_stream_begins_at_once(front: Front, hub: Hub) -> None:
    headers = {"Authorization": f"token {hub.token('joe')}"}
    address = f"{front.url}/services/springtide/api/v1/events"
    with httpx.stream("GET", address, headers=headers, verify=front.trusted, timeout=PATIENCE_S) as stream:
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        assert next(line for line in stream.iter_lines() if line)


def test_prometheus_scrapes_the_pool_by_the_configuration_of_the_page(
    front: Front, hub: Hub, tmp_path: Path
) -> None:
    program = unpacked_programs.find("prometheus")
    if program is None:
        pytest.fail("There is no prometheus on this machine: run `make tools`")
    found = re.search(r"```yaml\n(scrape_configs:.*?)```", (DOCS / "operations.md").read_text(), re.DOTALL)
    assert found
    config, token, port = yaml.safe_load(found.group(1)), tmp_path / "token", free_port()
    token.write_text(hub.token("admin"))
    [scrape] = config["scrape_configs"]
    scrape["authorization"]["credentials_file"] = str(token)
    scrape["static_configs"] = [{"targets": [front.url.removeprefix("https://")]}]
    scrape |= {"tls_config": {"ca_file": str(front.certificate)}, "scrape_interval": "1s", "scrape_timeout": "1s"}
    with unpacked_programs.prometheus(program, yaml.safe_dump(config), tmp_path, port) as log:

        def scraped() -> list[object]:
            try:
                answer = httpx.get(
                    f"http://127.0.0.1:{port}/api/v1/query", params={"query": "springtide_project_held_gpus"}
                ).raise_for_status()
            except httpx.HTTPError:
                return []
            return list(answer.json()["data"]["result"])

        until(f"a scrape, whose log is {log}", scraped)


def test_a_kernel_answers_and_a_large_file_goes_both_ways(front: Front, joe: str) -> None:
    large = "x" * 20_000_000
    api = f"{front.url}/user/joe/api"
    headers = {"Authorization": f"token {joe}"}
    with httpx.Client(headers=headers, verify=front.trusted, timeout=PATIENCE_S) as notebook:
        body = {"type": "file", "format": "text", "content": large}
        notebook.put(f"{api}/contents/large.txt", json=body).raise_for_status()
        assert len(notebook.get(f"{api}/contents/large.txt").json()["content"]) == len(large)
        terminal = notebook.post(f"{api}/terminals").raise_for_status().json()["name"]
    socket = f"{front.url.replace('https', 'wss')}/user/joe/terminals/websocket/{terminal}"

    async def first_message() -> str | bytes | None:
        request = HTTPRequest(socket, headers=headers, ca_certs=str(front.certificate))
        connection = await websocket_connect(request)
        try:
            return await connection.read_message()
        finally:
            connection.close()

    with ThreadPoolExecutor() as thread:  # this one has the browser's event loop
        assert "setup" in str(thread.submit(asyncio.run, first_message()).result(PATIENCE_S))
