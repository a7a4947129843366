"""People at a hub of the chart's own with a public address, and at one configured by the values the guide shows.

Notebooks are processes of this machine, and the GPUs are simulated; all else is what the chart renders. Its own
hub without a public address is used in `test_chart_service` and, on real nodes, in `test_story_on_kubernetes`.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from clusters.chart import Helm, shown_values
from clusters.chart_machine import (
    PASSWORD,
    PATIENCE_S,
    PROJECTS,
    Machine,
    Ports,
    answers,
    hub_config,
    logged_in,
    made_secrets,
    on_this_machine,
    own_hub_values,
    run_own_hub,
    run_part,
)
from hubs.hub_people import until

from springtide.scheduler.client import Client

MADE_BY_Z2JH = "made-by-zero-to-jupyterhub-for-the-service"
SIMULATED = {
    "executor": "local",
    "kubernetes": {},
    "images": [],
    "train_jobs": [],
    "simulated_gpus": 4,
    "build_gpus": 2,
}
Z2JH = """
# What zero-to-jupyterhub's own configuration does with these values.
import yaml
values = yaml.safe_load(open({values!r}))
c = get_config()
c.JupyterHub.spawner_class = "kubespawner.KubeSpawner"
c.JupyterHub.hub_connect_url = {hub!r}
c.JupyterHub.services = []
c.JupyterHub.load_roles = []
for key, service in values["hub"]["services"].items():
    service.setdefault("name", key)
    service["api_token"] = {token!r}
    c.JupyterHub.services.append(service)
for section, settings in values["hub"]["config"].items():
    c[section].update(settings)
for key, text in sorted(values["hub"]["extraConfig"].items()):
    exec(compile(text, key, "exec"))
"""


@pytest.fixture
def existing_hub(helm: Helm, tmp_path: Path) -> Iterator[str]:
    """A hub like zero-to-jupyterhub's; its URL for users."""
    machine = Machine(tmp_path)
    try:
        url = start_existing_hub(helm, machine, Ports())
        machine.until_service_answers(url)
        yield url
    finally:
        machine.stop()


def start_existing_hub(helm: Helm, machine: Machine, ports: Ports) -> str:
    shown = shown_values()["zero-to-jupyterhub"]
    shown["hub"]["services"]["springtide"]["url"] = Ports.url(ports.service)
    config = hub_config(machine, ports)
    config["JupyterHub"] |= {"bind_url": Ports.url(ports.proxy), "authenticator_class": "shared-password"}
    config["SharedPasswordAuthenticator"] = {"user_password": PASSWORD}
    proxy = [sys.executable, "-m", "springtide.hub_extension.local_hub.proxy"]
    config["ConfigurableHTTPProxy"] = {"command": proxy, "api_url": Ports.url(ports.api)}
    shown["hub"]["config"] = config
    values, file = machine.directory / "values.json", machine.directory / "jupyterhub_config.py"
    values.write_text(json.dumps(shown))
    file.write_text(Z2JH.format(values=str(values), hub=Ports.url(ports.hub), token=MADE_BY_Z2JH))
    machine.run("hub", [sys.executable, "-m", "jupyterhub", "--config", str(file)], {})

    settings = {**on_this_machine(machine), **SIMULATED}
    service = {"port": ports.service, "projects": PROJECTS, "settings": settings}
    attached = {"enabled": False, "existing": {"url": Ports.url(ports.hub)}}
    objects = helm.template({"hub": attached, "service": service})
    run_part(machine, objects, "service", {"hub": {"hub.services.springtide.apiToken": MADE_BY_Z2JH}})
    return Ports.url(ports.proxy)


@pytest.mark.timeout(3 * PATIENCE_S)
def test_people_of_an_existing_hub_reach_the_pool_and_start_a_notebook_on_their_quota(existing_hub: str) -> None:
    with (
        logged_in(existing_hub, "susan") as susan,
        Client(f"{existing_hub}/services/springtide", susan.token, timeout=PATIENCE_S) as pool,
    ):
        opened = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        page = susan.browser.get("/services/springtide/pool", headers=opened)
        assert page.is_success
        assert page.url.path == "/services/springtide/pool"
        assert [project.name for project in pool.me().projects] == ["vision"]

        server = "/hub/api/users/susan/server"
        started = susan.browser.post(server, json={"gpus": 1}, headers=susan.headers)
        assert started.status_code in {201, 202}, started.text
        until("the notebook", lambda: answers(f"{existing_hub}/user/susan/api"), seconds=PATIENCE_S)
        assert pool.build_quota("susan").held == 1
        susan.browser.delete(server, headers=susan.headers)
        until("the GPU is back", lambda: pool.build_quota("susan").held == 0, seconds=PATIENCE_S)


class ToThisMachine(httpx.HTTPTransport):
    """Connects to this machine whatever the host's name is, as a browser does for names below ``localhost``."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url.copy_with(host="127.0.0.1")
        headers, extensions = request.headers, request.extensions
        there = httpx.Request(request.method, url, headers=headers, stream=request.stream, extensions=extensions)
        return super().handle_request(there)


def subdomains(helm: Helm, machine: Machine, ports: Ports) -> str:
    """Run the chart with a public address; return it."""
    public = f"http://hub.localhost:{ports.proxy}"
    values = own_hub_values(machine, ports, SIMULATED)
    values["hub"] |= {"publicUrl": public, "allowedHosts": ["127.0.0.1"]}
    objects = helm.template(values)
    run_own_hub(machine, objects, ports)
    run_part(machine, objects, "service", made_secrets(objects))
    return public


@pytest.mark.timeout(3 * PATIENCE_S)
def test_with_a_public_address_people_log_in_at_it_and_find_the_pool_on_its_subdomain(
    helm: Helm, tmp_path: Path
) -> None:
    machine, ports = Machine(tmp_path), Ports()
    try:
        public = subdomains(helm, machine, ports)
        pool = f"http://springtide--service.hub.localhost:{ports.proxy}/services/springtide"
        opened = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        with httpx.Client(
            transport=ToThisMachine(verify=False), follow_redirects=True, timeout=PATIENCE_S
        ) as browser:
            health = f"{pool}/api/v1/health"
            until("the service", lambda: answered(browser, health), seconds=PATIENCE_S)
            page = browser.get(f"{pool}/pool", headers=opened)
            assert str(page.url).startswith(f"{public}/hub/login")
            form = {"username": "susan", "password": PASSWORD, "_xsrf": xsrf_of(page.text)}
            page = browser.post(str(page.url), data=form, headers=opened)
            assert (page.status_code, str(page.url)) == (200, f"{pool}/pool"), machine.words()
            foreign = browser.get(health, headers={"Host": f"evil.example:{ports.proxy}"})
            assert foreign.status_code == 421
    finally:
        machine.stop()


def xsrf_of(page: str) -> str:
    found = re.search(r'name="_xsrf" value="([^"]+)"', page)
    assert found, page
    return found[1]


def answered(browser: httpx.Client, url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return browser.get(url).status_code == 200
    return False
