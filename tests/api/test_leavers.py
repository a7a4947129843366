"""A deleted or renamed user of a real JupyterHub, and another one of the same name."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hubs.hub_people import until
from hubs.hub_process import WITHOUT_PAGES, HubProcess
from patience import PATIENCE_S

from springtide.hub_extension.web.fresh_look import EVERY_S

pytestmark = pytest.mark.xdist_group("hub")

API = "/services/springtide/api/v1"
BUSY = ["sleep", "600"]


class Hub:
    """A running hub with the service."""

    def __init__(self, process: HubProcess) -> None:
        self.process = process
        self.admin = self.as_(process.token("admin"))

    def as_(self, token: str) -> httpx.Client:
        headers = {"Authorization": f"token {token}"}
        return httpx.Client(base_url=self.process.url, headers=headers, timeout=PATIENCE_S, trust_env=False)

    def add(self, name: str) -> httpx.Client:
        """A new user in the project vision, and a client with a token of hers."""
        self.admin.post(f"/hub/api/users/{name}").raise_for_status()
        self.admin.post("/hub/api/groups/vision/users", json={"users": [name]}).raise_for_status()
        return self.as_(self.process.token(name))

    def delete(self, name: str) -> None:
        self.admin.delete(f"/hub/api/users/{name}").raise_for_status()

    def submit(self, client: httpx.Client, *argv: str, **fields: Any) -> dict[str, Any]:
        answer = client.post(f"{API}/jobs", json={"argv": list(argv) or BUSY, "project": "vision", **fields})
        assert answer.status_code == 201, answer.text
        return answer.json()

    def job(self, job: dict[str, Any]) -> dict[str, Any]:
        return self.admin.get(f"{API}/jobs/{job['id']}").json()

    def state(self, job: dict[str, Any], state: str) -> dict[str, Any]:
        return until(state, lambda: found if (found := self.job(job))["state"] == state else None)

    def audit(self) -> list[dict[str, Any]]:
        return self.admin.get(f"{API}/audit").json()["items"]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    config = f"{WITHOUT_PAGES}\nc.Springtide.projects = {{'vision': {{'quota': 2}}}}"
    settings: dict[str, object] = {"auth_cache": 60, "min_runtime": 0.0, "simulated_gpus": 2, "build_gpus": 0}
    process = HubProcess(tmp_path_factory.mktemp("hub") / "state", settings=settings, config=config)
    process.start()
    try:
        found = Hub(process)
        found.admin.post("/hub/api/groups/vision")
        yield found
    finally:
        process.stop()


def names(client: httpx.Client, **query: str) -> list[str]:
    return [job["name"] for job in client.get(f"{API}/jobs", params=query).json()["items"]]


def test_another_person_of_the_name_inherits_nothing(hub: Hub) -> None:
    nina = hub.add("nina")
    done = hub.submit(nina, "sh", "-c", "echo her secret > $SPRINGTIDE_OUTPUT_DIR/secret; echo secret", gpus=0)
    hub.state(done, "succeeded")
    runs = hub.submit(nina, gpus=2, name="runs")
    hub.state(runs, "running")
    waits = hub.submit(nina, gpus=1, name="waits")
    hub.delete("nina")

    other = hub.add("nina")
    hub.admin.request("DELETE", "/hub/api/groups/vision/users", json={"users": ["nina"]}).raise_for_status()
    assert names(other, mine="true") == []
    assert nina.get(f"{API}/me").status_code == 401, "her token is not that of the other"
    for path in ("", "/log", "/output", "/output/secret"):
        assert other.get(f"{API}/jobs/{done['id']}{path}").status_code == 404
    assert other.post(f"{API}/jobs/{runs['id']}/cancel").status_code == 404

    held = hub.job(waits)
    assert held["user"].startswith("nina (former, ")
    assert "is no longer a user of JupyterHub" in held["reason"]["text"]
    assert hub.job(runs)["state"] == "running"
    assert ("(in JupyterHub)", "person.leave") in [(each["who"], each["what"]) for each in hub.audit()]
    for job in (runs, waits):
        hub.admin.post(f"{API}/jobs/{job['id']}/cancel").raise_for_status()
    hub.state(runs, "cancelled")


def test_who_is_put_in_or_taken_out_by_the_pool_is_so_at_once(hub: Hub) -> None:
    vera = hub.add("vera")
    hub.admin.request("DELETE", "/hub/api/groups/vision/users", json={"users": ["vera"]}).raise_for_status()
    body = {"argv": ["true"], "project": "vision", "gpus": 0}
    vera.post(f"{API}/jobs", json=body)
    for _ in range(2):
        hub.admin.put(f"{API}/projects/vision/members/vera").raise_for_status()
        sent = vera.post(f"{API}/jobs", json=body)
        assert sent.status_code == 201, sent.text
        hub.admin.delete(f"{API}/projects/vision/members/vera").raise_for_status()
        refused = vera.post(f"{API}/jobs/{sent.json()['id']}/rerun", json={})
        assert refused.status_code == 403, refused.text
        assert refused.json()["message"] == "You are no longer in project “vision”, for which the job ran."


def test_who_is_put_in_by_the_hub_is_not_refused(hub: Hub) -> None:
    rosa = hub.add("rosa")
    group, body = "/hub/api/groups/vision/users", {"users": ["rosa"]}
    job = rosa.post(f"{API}/jobs", json={"argv": ["true"], "project": "vision", "gpus": 0}).json()
    hub.admin.request("DELETE", group, json=body).raise_for_status()
    hub.admin.put(f"{API}/projects/vision/members/admin").raise_for_status()  # so that answers are forgotten
    hub.admin.delete(f"{API}/projects/vision/members/admin").raise_for_status()
    again = f"{API}/jobs/{job['id']}/rerun"
    assert rosa.post(again, json={}).status_code == 403
    time.sleep(EVERY_S)
    hub.admin.post(group, json=body).raise_for_status()
    assert rosa.post(again, json={}).status_code == 201


def test_a_renamed_person_keeps_her_jobs(hub: Hub) -> None:
    olga = hub.add("olga")
    mine = hub.submit(olga, "true", gpus=0, name="hers")
    hub.state(mine, "succeeded")
    hub.admin.patch("/hub/api/users/olga", json={"name": "olga-maria"}).raise_for_status()

    made = olga.post("/hub/api/users/olga-maria/tokens", json={"note": "another"})
    assert names(hub.as_(made.json()["token"]), mine="true") == ["hers"]
    assert names(olga, mine="true") == ["hers"], "with the token that she had"
    assert hub.job(mine)["user"] == "olga-maria"
    renamed = next(each for each in hub.audit() if each["what"] == "person.rename")
    assert (renamed["before"], renamed["after"]) == ({"name": "olga"}, {"name": "olga-maria"})


@pytest.mark.root
def test_another_person_of_the_name_has_another_account(hub: Hub) -> None:
    def home(client: httpx.Client) -> list[str]:
        job = hub.submit(client, "sh", "-c", "id -u; echo $HOME", gpus=0)
        hub.state(job, "succeeded")
        return client.get(f"{API}/jobs/{job['id']}/log").json()["text"].split()[-2:]

    first = home(hub.add("zoe"))
    hub.delete("zoe")
    second = home(hub.add("zoe"))
    assert (second[0] != first[0], second[1] != first[1]) == (True, True)
    known = json.loads((hub.process.state_dir / "accounts.json").read_text())
    assert sorted(each["uid"] for name, each in known.items() if name.startswith("zoe")) == sorted(
        (int(first[0]), int(second[0]))
    )
