"""Identity by a real JupyterHub: its tokens, its groups, its logins."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from hubs.hub_people import environment, notebook_pid, until
from hubs.hub_process import ONE_HOST_NAME, WITHOUT_PAGES, HubProcess
from patience import PATIENCE_S

from springtide.hub_extension.web.auth import ADMIN_SCOPE, PROJECT_ADMIN_SCOPE, READ_SCOPE

pytestmark = pytest.mark.xdist_group("hub")

SERVICE = "/services/springtide"
API = f"{SERVICE}/api/v1"
ACCESS = "access:services!service=springtide"
LEADS = [f"{PROJECT_ADMIN_SCOPE}!group=susan", "groups!group=susan"]
ROLES = f"""
c.JupyterHub.load_groups.update({{"leads": {{"users": ["lena"]}}}})
c.JupyterHub.load_roles = [
    {{"name": "pool-admin", "scopes": [{ADMIN_SCOPE!r}], "users": ["jemma"]}},
    {{"name": "susans-admin", "scopes": {LEADS!r}, "groups": ["leads"]}},
    {{"name": "auditor", "scopes": [{f"{READ_SCOPE}!group=susan"!r}], "users": ["vera"]}},
]
"""
OPENED = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "same-origin"}
"""A browser's headers for a page that it opens in a tab."""
OTHER_WAYS = [
    {},
    {"Sec-Fetch-Mode": "navigate"},
    {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe", "Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "empty", "Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script", "Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty", "Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Mode": "same-origin", "Sec-Fetch-Dest": "empty", "Sec-Fetch-Site": "same-origin"},
]
"""What it says, or does not say, of requests whose answers a script may read."""


@dataclass
class Hub:
    """A running hub with the service, and a token of each person's own."""

    process: HubProcess
    tokens: dict[str, str]

    def as_(self, token: str | None) -> httpx.Client:
        headers = {} if token is None else {"Authorization": f"token {token}"}
        return httpx.Client(
            base_url=self.process.url, headers=headers, timeout=PATIENCE_S, trust_env=False, verify=False
        )

    def token(self, user: str, *scopes: str) -> tuple[str, str]:
        """A new token with these scopes only, and its id."""
        with self.as_(self.tokens[user]) as client:
            made = client.post(f"/hub/api/users/{user}/tokens", json={"scopes": list(scopes)})
            assert made.status_code == 201, made.text
            return made.json()["token"], made.json()["id"]

    def browser(self, user: str) -> httpx.Client:
        """A browser that has logged in to the hub and opened the pool's page."""
        browser = httpx.Client(
            base_url=self.process.url, follow_redirects=True, timeout=PATIENCE_S, trust_env=False, verify=False
        )
        browser.headers.update(OPENED)
        page = browser.get(f"{SERVICE}/")
        form = {"username": user, "password": self.process.password, "_xsrf": _form_xsrf(page.text)}
        page = browser.post(str(page.url), data=form)
        assert page.url.path in {f"{SERVICE}/", f"{SERVICE}/home"}, page.url
        assert page.status_code == 200
        for name in OPENED:
            del browser.headers[name]
        return browser


def _form_xsrf(page: str) -> str:
    found = re.search(r'name="_xsrf" value="([^"]+)"', page)
    assert found, page
    return found.group(1)


def xsrf(browser: httpx.Client) -> str:
    """What the pool's own script finds in its page."""
    found = re.search(r'data-xsrf="([^"]+)"', browser.get(f"{SERVICE}/pool", headers=OPENED).text)
    assert found
    return found.group(1)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    settings: dict[str, object] = {"auth_cache": 1, "min_runtime": 0.0}
    config = f"{ROLES}{WITHOUT_PAGES}{ONE_HOST_NAME}"
    process = HubProcess(tmp_path_factory.mktemp("hub") / "state", settings=settings, config=config)
    process.start()
    try:
        yield Hub(process, {name: process.token(name) for name in ("susan", "joe", "admin")})
    finally:
        process.stop()


@contextlib.contextmanager
def unwritable_hub(process: HubProcess) -> Iterator[None]:
    """The hub's database takes no note of the use of tokens."""
    database = sqlite3.connect(process.state_dir / "hub" / "jupyterhub.sqlite", timeout=PATIENCE_S)
    with contextlib.closing(database):
        refuse = "BEFORE UPDATE ON api_tokens BEGIN SELECT RAISE(ABORT, 'disk I/O error'); END"
        database.execute(f"CREATE TRIGGER cannot_write {refuse}")
        database.commit()
        try:
            yield
        finally:
            database.execute("DROP TRIGGER cannot_write")
            database.commit()


def test_a_hub_that_cannot_write_is_away_and_its_tokens_are_good(hub: Hub) -> None:
    """It answers those who asked within half a minute, as the service: it does not write down their use again."""
    token, _ = hub.token("susan", ACCESS)
    with hub.as_((hub.process.state_dir / "service-token").read_text().strip()) as service:
        assert service.get("/hub/api/user").status_code == 200
    with unwritable_hub(hub.process), hub.as_(token) as client:
        refused = client.get(f"{API}/me")
        assert (refused.status_code, refused.json()["code"]) == (503, "hub_away")
        assert "The hub cannot check tokens" in refused.json()["message"]
    with hub.as_(token) as client:
        assert client.get(f"{API}/me").status_code == 200
    with hub.as_("wrong") as client:
        assert client.get(f"{API}/me").status_code == 401


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", disk], check=True)
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def fill(path: Path) -> None:
    """Write a file until its disk has no room."""
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 12))


@pytest.mark.root
def test_while_the_disk_is_full_the_pool_says_so_and_nothing_of_groups(small_disk: Path) -> None:
    """Pages and JupyterLab have these words in their banner."""
    process = HubProcess(small_disk, config=f"{WITHOUT_PAGES}{ONE_HOST_NAME}")
    process.start()
    try:
        hub = Hub(process, {"susan": process.token("susan")})
        token, _ = hub.token("susan", ACCESS)
        with pytest.raises(OSError, match="No space left"):
            fill(small_disk / "filler")
        with hub.as_(token) as client:
            problem = refused(client.get(f"{API}/me"), 503)
            (small_disk / "filler").unlink()
            assert client.get(f"{API}/me").status_code == 200
    finally:
        process.stop()
    assert problem["message"] == (
        f"The disk that holds {small_disk} is full. So the hub cannot check tokens and identifies no one. "
        "Jobs that were accepted before wait, and running ones continue."
    )
    assert problem["hint"] == "An administrator of this hub has to make room on this disk; then try again."


def eventually(wanted: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not wanted():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def refused(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/json"
    problem = answer.json()
    assert problem["status"] == status
    return problem


def test_the_hub_says_who_one_is_and_in_which_projects(hub):
    me = hub.as_(hub.tokens["susan"]).get(f"{API}/me").json()
    assert (me["name"], me["admin"], [choice["name"] for choice in me["projects"]]) == ("susan", False, ["susan"])
    assert hub.as_(hub.tokens["admin"]).get(f"{API}/me").json()["admin"] is True


def test_a_token_that_only_gives_access_to_the_pool_is_enough_for_a_notebook(hub):
    token, _ = hub.token("susan", ACCESS)
    answer = hub.as_(token).post(f"{API}/jobs", json={"argv": ["true"]})
    assert (answer.status_code, answer.json()["user"]) == (201, "susan")


def test_a_token_without_access_is_told_what_it_lacks(hub):
    token, _ = hub.token("susan", "read:users:name!user=susan")
    problem = refused(hub.as_(token).get(f"{API}/me"), 403)
    assert ACCESS in problem["hint"]


@pytest.mark.parametrize("token", [None, "nonsense", "x" * 5000])
@pytest.mark.parametrize("path", ["me", "events", "jobs", "metrics"])
def test_strangers_are_told_in_json_and_not_sent_to_a_login_page(hub, token, path):
    refused(hub.as_(token).get(f"{API}/{path}"), 401)


def test_one_person_cannot_act_as_another_or_for_another_project(hub):
    susan, joe = hub.as_(hub.tokens["susan"]), hub.as_(hub.tokens["joe"])
    job = susan.post(f"{API}/jobs", json={"argv": ["sleep", "600"]}).json()
    for act in ("pause", "resume", "cancel"):
        refused(joe.post(f"{API}/jobs/{job['id']}/{act}"), 404)
    refused(joe.post(f"{API}/jobs", json={"argv": ["true"], "project": "susan"}), 403)
    refused(joe.post(f"{API}/jobs", json={"argv": ["true"], "user": "susan"}), 422)
    refused(joe.patch(f"{API}/projects/joe", json={"quota": 8}), 403)
    refused(joe.post(f"{API}/workspaces", json={"user": "joe", "gpus": 3}), 403)
    assert susan.post(f"{API}/jobs/{job['id']}/cancel").status_code == 200


def test_the_hubs_own_token_reserves_and_does_nothing_else(hub):
    spawner = hub.as_((hub.process.state_dir / "service-token").read_text().strip())
    assert spawner.get(f"{API}/build-quota/joe").json()["quota"] == 1
    refused(spawner.post(f"{API}/jobs", json={"argv": ["true"], "project": "joe"}), 403)
    refused(spawner.get(f"{API}/admin"), 403)


def test_a_revoked_token_and_its_open_stream_end(hub):
    token, number = hub.token("joe", ACCESS)
    client = hub.as_(token)
    with client.stream("GET", f"{API}/events") as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("retry:")
        hub.as_(hub.tokens["joe"]).delete(f"/hub/api/users/joe/tokens/{number}").raise_for_status()
        for _ in lines:
            pass
    refused(client.get(f"{API}/me"), 401)


def test_somebody_who_is_taken_out_of_a_project_can_no_longer_submit_for_it(hub):
    admin, joe = hub.as_(hub.tokens["admin"]), hub.as_(hub.tokens["joe"])
    body = {"argv": ["true"], "project": "susan"}
    assert admin.put(f"{API}/projects/susan/members/joe").status_code == 204
    eventually(lambda: joe.post(f"{API}/jobs", json=body).status_code == 201)
    assert admin.delete(f"{API}/projects/susan/members/joe").status_code == 204
    eventually(lambda: joe.post(f"{API}/jobs", json=body).status_code == 403)
    trail = admin.get(f"{API}/audit").json()["items"]
    assert [entry["what"] for entry in trail[:2]] == ["member.remove", "member.add"]


def test_a_project_is_made_in_the_hub_with_the_administrators_own_rights(hub):
    admin = hub.as_(hub.tokens["admin"])
    assert admin.put(f"{API}/projects/night shift", json={"weight": 2}).status_code == 201
    assert admin.get("/hub/api/groups/night%20shift").json()["users"] == []
    assert admin.put(f"{API}/projects/night shift/members/jemma").status_code == 204
    members = {project["name"]: project["members"] for project in admin.get(f"{API}/admin").json()["projects"]}
    assert members["night shift"] == ["jemma"]
    problem = refused(admin.put(f"{API}/projects/night shift/members/nobody"), 422)
    assert "nobody" in problem["message"]
    assert admin.delete(f"{API}/projects/night shift").status_code == 204
    assert admin.get("/hub/api/groups/night%20shift").status_code == 404


def test_an_administrators_narrow_token_is_that_of_somebody_without_projects(hub):
    token, _ = hub.token("admin", ACCESS)
    narrow, susan = hub.as_(token), hub.as_(hub.tokens["susan"])
    assert narrow.get(f"{API}/me").json()["admin"] is False
    job = susan.post(f"{API}/jobs", json={"argv": ["sleep", "600"]}).json()["id"]
    for path in (f"jobs/{job}", f"jobs/{job}/log", f"jobs/{job}/points", f"events?job={job}"):
        refused(narrow.get(f"{API}/{path}"), 404)
    refused(narrow.post(f"{API}/jobs/{job}/cancel"), 404)
    refused(narrow.patch(f"{API}/projects/joe", json={"weight": 2}), 403)
    refused(narrow.put(f"{API}/projects/other", json={}), 403)
    refused(narrow.delete(f"{API}/projects/joe"), 403)
    refused(narrow.patch(f"{API}/people/joe", json={"build_quota": 0}), 403)
    refused(narrow.put(f"{API}/projects/joe/members/susan"), 403)
    refused(narrow.post(f"{API}/jobs", json={"argv": ["true"], "project": "joe"}), 403)
    refused(narrow.post(f"{API}/forecast", json={"projects": {"joe": {"quota": 0}}}), 403)
    for path in ("admin", "audit", "build-quota/joe"):
        refused(narrow.get(f"{API}/{path}"), 403)
    assert narrow.get(f"{API}/jobs").json()["items"] == []
    assert susan.post(f"{API}/jobs/{job}/cancel").status_code == 200


def test_the_token_of_an_administrators_notebook_administers_nothing(hub):
    hub.as_(hub.tokens["admin"]).post("/hub/api/users/admin/server", json={"gpus": 0}).raise_for_status()
    pid = until("the notebook", lambda: notebook_pid(hub.process.state_dir, "admin"))
    notebook = hub.as_(environment(pid)["JUPYTERHUB_API_TOKEN"])
    me = notebook.get(f"{API}/me").json()
    assert (me["name"], me["admin"]) == ("admin", False)
    refused(notebook.patch(f"{API}/projects/joe", json={"weight": 2}), 403)


def test_a_token_may_be_for_the_pool_alone(hub):
    token, _ = hub.token("admin", ACCESS, ADMIN_SCOPE)
    narrow = hub.as_(token)
    assert narrow.get(f"{API}/me").json()["admin"] is True
    assert narrow.patch(f"{API}/projects/joe", json={"weight": 1}).status_code == 200
    refused(narrow.get("/hub/api/users/joe"), 404)


def test_a_role_of_the_hub_makes_an_administrator_of_the_pool_and_of_nothing_else(hub):
    jemma = hub.as_(hub.process.token("jemma"))
    assert jemma.get(f"{API}/me").json()["admin"] is True
    assert jemma.patch(f"{API}/projects/joe", json={"weight": 1}).status_code == 200
    assert refused(jemma.put(f"{API}/projects/joe/members/susan"), 403)["code"] == "hub_refused"
    with contextlib.closing(hub.browser("jemma")) as browser:
        headers = {"X-XSRFToken": xsrf(browser)}
        assert browser.patch(f"{API}/projects/joe", json={"weight": 1}, headers=headers).status_code == 200


def test_nobody_takes_the_scope_of_administrators(hub):
    with hub.as_(hub.tokens["joe"]) as joe:
        made = joe.post("/hub/api/users/joe/tokens", json={"scopes": [ACCESS, ADMIN_SCOPE]})
        if made.status_code == 201:
            joe.headers["Authorization"] = f"token {made.json()['token']}"
            assert joe.get(f"{API}/me").json()["admin"] is False
        refused(joe.patch(f"{API}/projects/joe", json={"quota": 8}), 403)


def test_an_administrators_limited_token_cannot_change_groups(hub):
    token, _ = hub.token("admin", ACCESS, ADMIN_SCOPE)
    problem = refused(hub.as_(token).put(f"{API}/projects/susan/members/jemma"), 403)
    assert problem["code"] == "hub_refused"
    assert "admin:groups" in problem["hint"]
    refused(hub.as_(token).put(f"{API}/projects/other", json={}), 403)
    assert "other" not in {p["name"] for p in hub.as_(token).get(f"{API}/pool").json()["projects"]}


# ---------- browsers


@pytest.fixture(scope="module")
def susans(hub: Hub) -> Iterator[httpx.Client]:
    browser = hub.browser("susan")
    yield browser
    browser.close()


def test_a_browser_logs_in_by_the_hub_and_comes_back(susans):
    page = susans.get(f"{SERVICE}/pool", headers=OPENED)
    assert page.url.path == f"{SERVICE}/pool"
    policy = page.headers["Content-Security-Policy"]
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy


@pytest.mark.parametrize("mode", [None, "cors", "no-cors", "same-origin", "navigate", "websocket"])
def test_a_browser_changes_nothing_without_proof_that_our_page_asked(susans, mode):
    headers = {} if mode is None else {"Sec-Fetch-Mode": mode, "Sec-Fetch-Site": "same-origin"}
    before = susans.get(f"{API}/jobs", headers={"X-XSRFToken": xsrf(susans)}).json()["items"]
    problem = refused(susans.post(f"{API}/jobs", json={"argv": ["true"]}, headers=headers), 403)
    assert problem["code"] == "xsrf"
    refused(
        susans.post(f"{API}/jobs", json={"argv": ["true"]}, headers={**headers, "X-XSRFToken": "made-up"}), 403
    )
    assert susans.get(f"{API}/jobs", headers={"X-XSRFToken": xsrf(susans)}).json()["items"] == before


@pytest.mark.parametrize("headers", [*OTHER_WAYS, OPENED], ids=str)
@pytest.mark.parametrize("path", ["me", "jobs", "pool", "events", "admin", "history"])
def test_a_cookie_alone_reads_nothing_of_the_api(susans, headers, path):
    assert refused(susans.get(f"{API}/{path}", headers=headers), 403)["code"] == "xsrf"
    assert refused(susans.get(f"{API}/{path}?_xsrf={xsrf(susans)}", headers=headers), 403)["code"] == "xsrf"


@pytest.mark.parametrize("headers", OTHER_WAYS, ids=str)
@pytest.mark.parametrize("path", ["", "pool", "admin", "jobs/1", "nowhere"])
def test_a_page_that_is_not_opened_in_a_tab_tells_nothing(susans, headers, path):
    answer = susans.get(f"{SERVICE}/{path}", headers={**headers, "Accept": "text/html"})
    assert answer.status_code == 403
    assert "can only be opened in a tab" in answer.text
    assert 'data-xsrf=""' in answer.text
    assert xsrf(susans) not in answer.text
    assert 'data-user=""' in answer.text


def test_no_script_can_read_the_cookies_of_the_pool(susans):
    kept = [cookie for cookie in susans.cookies.jar if SERVICE in cookie.path]
    assert {"_xsrf"} < {cookie.name for cookie in kept}
    assert all(cookie.has_nonstandard_attr("HttpOnly") for cookie in kept)


def test_the_page_itself_reads_changes_and_listens(susans):
    headers = {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin"}
    ours = {**headers, "X-XSRFToken": xsrf(susans)}
    assert susans.get(f"{API}/me", headers=ours).json()["name"] == "susan"
    assert susans.post(f"{API}/jobs", json={"argv": ["true"]}, headers=ours).status_code == 201
    with susans.stream("GET", f"{API}/events", headers=ours) as stream:
        assert stream.status_code == 200
        assert next(stream.iter_lines()).startswith("retry:")


def test_the_proof_of_one_browser_is_none_for_another(hub, susans):
    with contextlib.closing(hub.browser("joe")) as joes:
        headers = {"X-XSRFToken": xsrf(joes)}
        refused(susans.post(f"{API}/jobs", json={"argv": ["true"]}, headers=headers), 403)


@pytest.mark.parametrize("mode", ["cors", "no-cors"])
def test_a_token_needs_no_proof(hub, mode):
    headers = {"Sec-Fetch-Mode": mode, "Sec-Fetch-Site": "cross-site"}
    client = hub.as_(hub.tokens["susan"])
    assert client.post(f"{API}/jobs", json={"argv": ["true"]}, headers=headers).status_code == 201


def test_a_bad_token_does_not_fall_back_to_the_browsers_login(susans):
    headers = {"Authorization": "token nonsense", "X-XSRFToken": xsrf(susans)}
    refused(susans.get(f"{API}/me", headers=headers), 401)


def test_an_administrator_changes_groups_from_the_page(hub):
    with contextlib.closing(hub.browser("admin")) as browser:
        headers = {"X-XSRFToken": xsrf(browser)}
        assert browser.get(f"{API}/me", headers=headers).json()["admin"] is True
        assert browser.put(f"{API}/projects/susan/members/jemma", headers=headers).status_code == 204
        assert browser.delete(f"{API}/projects/susan/members/jemma", headers=headers).status_code == 204


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example", "/../../hub/admin"])
def test_a_login_never_leads_elsewhere(hub, path):
    with httpx.Client(base_url=hub.process.url, timeout=PATIENCE_S, trust_env=False, verify=False) as client:
        answer = client.get(f"{SERVICE}{path}")
        location = answer.headers.get("Location", "")
        assert "evil.example" not in location.partition("?")[0]
        assert not location or location.startswith("/")


def test_roles_of_the_hub_make_viewers_and_admins_of_one_project(hub):
    job = hub.as_(hub.tokens["susan"]).post(f"{API}/jobs", json={"argv": ["sleep", "600"]}).json()["id"]
    other = hub.as_(hub.tokens["joe"]).post(f"{API}/jobs", json={"argv": ["sleep", "600"]}).json()["id"]
    try:
        vera, lena = hub.as_(hub.process.token("vera")), hub.as_(hub.process.token("lena"))
        for reader in (vera, lena):
            assert reader.get(f"{API}/jobs/{job}").status_code == 200
            refused(reader.get(f"{API}/jobs/{other}"), 404)
        refused(vera.post(f"{API}/jobs/{job}/pause"), 403)
        assert lena.post(f"{API}/jobs/{job}/pause").status_code == 200
        refused(lena.patch(f"{API}/projects/susan", json={"quota": 0}), 403)
        assert lena.put(f"{API}/projects/susan/members/joe").status_code == 204
        assert lena.delete(f"{API}/projects/susan/members/joe").status_code == 204
        refused(lena.put(f"{API}/projects/joe/members/lena"), 403)
    finally:
        for user, id_ in (("susan", job), ("joe", other)):
            hub.as_(hub.tokens[user]).post(f"{API}/jobs/{id_}/cancel")


def test_a_project_admins_page_has_the_role_and_her_narrow_token_has_not(hub):
    browser = hub.browser("lena")
    headers = {"X-XSRFToken": xsrf(browser)}
    shown = browser.get(f"{API}/admin", headers=headers).json()
    assert [project["name"] for project in shown["projects"]] == ["susan"]
    assert browser.put(f"{API}/projects/susan/members/joe", headers=headers).status_code == 204
    assert browser.delete(f"{API}/projects/susan/members/joe", headers=headers).status_code == 204
    assert browser.get(f"{SERVICE}/admin", headers=OPENED).status_code == 200
    with hub.as_(hub.process.token("lena")) as client:
        narrow = client.post("/hub/api/users/lena/tokens", json={"scopes": [ACCESS]}).json()["token"]
    refused(hub.as_(narrow).get(f"{API}/admin"), 403)
