"""Every cell of the table of roles, through the API of a running service."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
import pytest_asyncio

from springtide.hub_extension.api.permissions import TABLE, Action, Role
from springtide.hub_extension.web.caller import Caller
from springtide.scheduler import wire
from springtide.scheduler.model import JobState

PROJECT = "vision"
INSIDE = "robots"
NAMES = {role: role.words.replace(" ", "-") for role in Role}
SCOPED: dict[Role, dict[str, Any]] = {
    Role.NONE: {"groups": frozenset({"speech"})},
    Role.VIEWER: {"views": frozenset({PROJECT})},
    Role.MEMBER: {"groups": frozenset({PROJECT})},
    Role.PROJECT_ADMIN: {"administers": frozenset({PROJECT})},
    Role.POOL_ADMIN: {"admin": True},
}
DENIED = {403, 404}
UNFINISHED = ",".join(state.value for state in JobState if not state.final)


async def with_roles(running: Any) -> Any:
    """Return the service with a caller of each role in `PROJECT`, and the project `INSIDE` in it."""
    for role, name in NAMES.items():
        running.people.callers[name] = Caller(name, token=name, **SCOPED[role])
    inside = wire.ProjectEdit(parent=PROJECT, quota=0)
    await running.pool.engine.create_project(INSIDE, inside, "test", members={})
    running.people.groups[INSIDE] = []
    return running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_pool(started: Any) -> Any:
    """A service for all cells of the table, which ask who may and not what comes of it."""
    return await with_roles(await started())


@pytest.fixture
async def pool(running: Any) -> Any:
    return await with_roles(running)


async def job_of(pool: Any, user: str) -> str:
    """Return a waiting job of this user, who need not be in the project any more."""
    submission = wire.Submission(argv=["sleep", "600"], gpus=4, require="node", workers=1)
    return (await pool.pool.engine.submit(submission, user, PROJECT)).id


async def see(pool: Any, client: httpx.AsyncClient, user: str) -> httpx.Response:
    job = await job_of(pool, user)
    found = await client.get(f"/jobs/{job}")
    listed = [each["id"] for each in (await client.get("/jobs")).json()["items"]]
    assert (job in listed) is (found.status_code == 200)
    for part in ("log", "points"):
        assert (await client.get(f"/jobs/{job}/{part}")).status_code == found.status_code
    return found


async def submit(_pool: Any, client: httpx.AsyncClient, _user: str) -> httpx.Response:
    return await client.post("/jobs", json={"argv": ["true"], "project": PROJECT})


async def stop(pool: Any, client: httpx.AsyncClient, user: str) -> httpx.Response:
    job = await job_of(pool, user)
    paused = await client.post(f"/jobs/{job}/pause")
    cancelled = await client.post(f"/jobs/{job}/cancel")
    assert paused.status_code == cancelled.status_code
    return cancelled


async def resume(pool: Any, client: httpx.AsyncClient, user: str) -> httpx.Response:
    job = await job_of(pool, user)
    await pool.pool.engine.pause(job, user)
    return await client.post(f"/jobs/{job}/resume")


async def hold(pool: Any, client: httpx.AsyncClient, user: str) -> httpx.Response:
    job = await job_of(pool, user)
    held = await client.post(f"/jobs/{job}/hold", json={"reason": "Its data may not be used."})
    if held.status_code in DENIED:
        await pool.pool.engine.hold(job, "root", "Its data may not be used.")
    released = await client.post(f"/jobs/{job}/release", json={})
    assert held.status_code == released.status_code
    return released


async def edit(pool: Any, client: httpx.AsyncClient, user: str) -> httpx.Response:
    job = await job_of(pool, user)
    edited = await client.post(f"/jobs/{job}/edit", json={"priority": 40})
    body = {"action": "edit", "jobs": [job], "edit": {"priority": 30}}
    [several] = (await client.post("/jobs/actions", json=body)).json()["results"]
    assert (edited.status_code in DENIED) is (several.get("problem") is not None)
    return edited


async def rerun(pool: Any, client: httpx.AsyncClient, user: str) -> httpx.Response:
    job = await job_of(pool, user)
    form = await client.get(f"/jobs/{job}/rerun")
    again = await client.post(f"/jobs/{job}/rerun", json={"name": "again"})
    assert (form.status_code in DENIED) is (again.status_code in DENIED)
    return again


async def enter(pool: Any, client: httpx.AsyncClient, user: str) -> httpx.Response:
    return await client.post(f"/jobs/{await job_of(pool, user)}/sessions", json={"argv": ["true"]})


async def delete_checkpoints(pool: Any, client: httpx.AsyncClient, user: str) -> httpx.Response:
    return await client.post(f"/jobs/{await job_of(pool, user)}/checkpoints/delete", json={"names": ["00000001"]})


async def delete(pool: Any, client: httpx.AsyncClient, user: str) -> httpx.Response:
    job = await job_of(pool, user)
    deleted = await client.delete(f"/jobs/{job}")
    several = await client.post("/jobs/actions", json={"action": "delete", "jobs": [job]})
    assert (deleted.status_code in DENIED) is (several.json()["results"][0]["problem"]["status"] in DENIED)
    return deleted


async def tag(pool: Any, client: httpx.AsyncClient, user: str) -> httpx.Response:
    return await client.patch(f"/jobs/{await job_of(pool, user)}/tags", json={"add": ["best"]})


async def freeze(_pool: Any, client: httpx.AsyncClient, _user: str) -> httpx.Response:
    frozen = await client.post(f"/projects/{PROJECT}/freeze", json={"why": "A review."})
    unfrozen = await client.post(f"/projects/{PROJECT}/unfreeze")
    assert frozen.status_code == unfrozen.status_code
    return unfrozen


async def budget(_pool: Any, client: httpx.AsyncClient, _user: str) -> httpx.Response:
    given = await client.put(f"/projects/{PROJECT}/budget", json={"amount": 5.0, "unit": "gpu-hours"})
    taken = await client.delete(f"/projects/{PROJECT}/budget")
    assert (given.status_code in DENIED) is (taken.status_code in DENIED)
    return taken


async def presets(_pool: Any, client: httpx.AsyncClient, _user: str) -> httpx.Response:
    made = await client.put("/presets/small", json={"project": PROJECT, "options": {"gpus": 1}})
    pooled = await client.put("/presets/small", json={"options": {"gpus": 1}})
    assert pooled.status_code in {200, 403}
    deleted = await client.delete("/presets/small", params={"project": PROJECT})
    assert (made.status_code == 403) is (deleted.status_code == 403)
    return deleted


async def preset_variables(_pool: Any, client: httpx.AsyncClient, _user: str) -> httpx.Response:
    body = {"project": PROJECT, "options": {"env": {"LD_PRELOAD": "/tmp/x.so"}}}
    made = await client.put("/presets/loud", json=body)
    await client.delete("/presets/loud", params={"project": PROJECT})
    return made


async def change_members(_pool: Any, client: httpx.AsyncClient, _user: str) -> httpx.Response:
    added = await client.put(f"/projects/{PROJECT}/members/new")
    removed = await client.delete(f"/projects/{PROJECT}/members/new")
    assert added.status_code == removed.status_code
    return removed


async def change_leads(_pool: Any, client: httpx.AsyncClient, _user: str) -> httpx.Response:
    added = await client.put(f"/projects/{PROJECT}/leads/new")
    removed = await client.delete(f"/projects/{PROJECT}/leads/new")
    assert added.status_code == removed.status_code
    return removed


async def ask(_pool: Any, client: httpx.AsyncClient, _user: str) -> httpx.Response:
    wanted = {"kind": "project", "project": PROJECT, "edit": {"quota": 3}}
    made = await client.post("/requests", json={"wanted": wanted, "why": "a deadline"})
    if made.status_code == 201:
        await client.delete(f"/requests/{made.json()['number']}")
    return made


async def book(_pool: Any, client: httpx.AsyncClient, _user: str) -> httpx.Response:
    listed = await client.get("/bookings")
    assert (listed.status_code, [each["nodes"] for each in listed.json()["items"]]) == (200, [])
    made = await client.post("/bookings", json={"nodes": ["train"], "start": 1e10, "end": 1e11})
    far = await client.post(
        "/bookings", json={"nodes": ["train"], "start": time.time() + 60, "end": time.time() + 90}
    )
    number = far.json()["booking"]["number"] if far.status_code == 201 else 1
    preview = await client.post("/bookings/preview", json={"nodes": ["train"], "end": time.time() + 90})
    changed = await client.post(
        "/bookings", json={"nodes": ["train"], "end": time.time() + 90, "replaces": number, "why": "later"}
    )
    cancelled = await client.delete(f"/bookings/{number}")
    assert made.status_code in {*DENIED, 422}
    assert (far.status_code < 300) is (preview.status_code < 300) is (changed.status_code < 300)
    assert (far.status_code < 300) is (cancelled.status_code < 300)
    return cancelled


async def change_child(_pool: Any, client: httpx.AsyncClient, _user: str) -> httpx.Response:
    body = {"quota": 1, "limit": 2, "weight": 2.0, "priority": 7, "ranges": {"max_gpus": 1}}
    changed = await client.patch(f"/projects/{INSIDE}", json=body)
    await client.patch(f"/projects/{INSIDE}", json={"quota": 0})
    return changed


async def change_project(_pool: Any, client: httpx.AsyncClient, _user: str) -> httpx.Response:
    bodies: tuple[dict[str, Any], ...] = ({"quota": 2}, {"ranges": {}}, {"build_quota": 0}, {"parent": None})
    for body in bodies:
        changed = await client.patch(f"/projects/{PROJECT}", json=body)
        moved = await client.patch(f"/projects/{INSIDE}", json={"parent": "speech"})
        await client.patch(f"/projects/{INSIDE}", json={"parent": PROJECT})
        assert changed.status_code == moved.status_code
    return changed


async def make_project(_pool: Any, client: httpx.AsyncClient, _user: str) -> httpx.Response:
    made = await client.put("/projects/fresh", json={"parent": PROJECT})
    deleted = await client.delete("/projects/fresh")
    assert (made.status_code < 300) is (deleted.status_code < 300)
    return deleted


async def change_person(_pool: Any, client: httpx.AsyncClient, _user: str) -> httpx.Response:
    return await client.patch("/people/susan", json={"build_quota": None})


async def drain(_pool: Any, client: httpx.AsyncClient, _user: str) -> httpx.Response:
    drained = await client.post("/nodes/drain", json={"node": "train"})
    undrained = await client.post("/nodes/undrain", json={"node": "train"})
    assert (drained.status_code < 300) is (undrained.status_code < 300)
    return undrained


async def free_gpus(_pool: Any, client: httpx.AsyncClient, _user: str) -> httpx.Response:
    answer = await client.post("/gpus/free", json={"holder": "none.1"})
    assert answer.status_code in {403, 404}
    return httpx.Response(204) if answer.status_code == 404 else answer


async def see_audit(_pool: Any, client: httpx.AsyncClient, _user: str) -> httpx.Response:
    read = await client.get("/audit", params={"project": PROJECT})
    table = await client.get("/audit.csv", params={"project": PROJECT})
    assert (read.status_code == 403) is (table.status_code == 403)
    return read


async def undo(_pool: Any, client: httpx.AsyncClient, _user: str) -> httpx.Response:
    return await client.post("/audit/1/undo")


async def cancel_all(pool: Any) -> None:
    """Cancel the jobs of the cells before, so that a GPU is idle."""
    name = NAMES[Role.POOL_ADMIN]
    jobs = (await pool.as_(name).get("/jobs", params={"state": UNFINISHED, "limit": 200})).json()["items"]
    for job in jobs:
        await pool.as_(name).post(f"/jobs/{job['id']}/cancel")
        await pool.until(name, job["id"], lambda found: found["state"] not in UNFINISHED)


async def report(pool: Any, client: httpx.AsyncClient, user: str) -> httpx.Response:
    await cancel_all(pool)
    engine = pool.pool.engine
    job = (await engine.submit(wire.Submission(argv=["sleep", "600"], gpus=1), user, PROJECT)).id
    await pool.until(NAMES[Role.POOL_ADMIN], job, lambda found: found["state"] == "running")
    found = (await client.get("/report", params={"by": "project,person"})).json()
    await engine.cancel(job, user)
    seen = {(row["by"]["project"], row["by"]["person"]) for row in found["rows"]}
    return httpx.Response(200 if (PROJECT, user) in seen else 404)


TRY: dict[Action, Callable[[Any, httpx.AsyncClient, str], Awaitable[httpx.Response]]] = {
    Action.SEE: see,
    Action.SUBMIT: submit,
    Action.STOP: stop,
    Action.RESUME: resume,
    Action.RERUN: rerun,
    Action.ENTER: enter,
    Action.DELETE_CHECKPOINTS: delete_checkpoints,
    Action.DELETE: delete,
    Action.HOLD: hold,
    Action.EDIT: edit,
    Action.TAG: tag,
    Action.REPORT: report,
    Action.ASK: ask,
    Action.FREEZE: freeze,
    Action.CHANGE_MEMBERS: change_members,
    Action.CHANGE_LEADS: change_leads,
    Action.CHANGE_CHILD: change_child,
    Action.CHANGE_PROJECT: change_project,
    Action.MAKE_PROJECT: make_project,
    Action.PRESETS: presets,
    Action.PRESET_VARIABLES: preset_variables,
    Action.BUDGET: budget,
    Action.CHANGE_PERSON: change_person,
    Action.DRAIN: drain,
    Action.BOOK: book,
    Action.FREE_GPUS: free_gpus,
    Action.SEE_AUDIT: see_audit,
    Action.UNDO: undo,
}
EXPECTED = {
    Action.SEE: (False, True, True, True, True),
    Action.SUBMIT: (False, False, True, True, True),
    Action.STOP: (False, False, False, True, True),
    Action.RESUME: (False, False, False, True, True),
    Action.RERUN: (False, False, False, False, False),
    Action.ENTER: (False, False, False, False, False),
    Action.DELETE_CHECKPOINTS: (False, False, False, False, False),
    Action.DELETE: (False, False, False, True, True),
    Action.HOLD: (False, False, False, True, True),
    Action.EDIT: (False, False, False, True, True),
    Action.TAG: (False, False, False, True, True),
    Action.REPORT: (False, False, False, True, True),
    Action.ASK: (False, False, True, True, True),
    Action.FREEZE: (False, False, False, True, True),
    Action.CHANGE_MEMBERS: (False, False, False, True, True),
    Action.CHANGE_LEADS: (False, False, False, False, True),
    Action.CHANGE_CHILD: (False, False, False, True, True),
    Action.CHANGE_PROJECT: (False, False, False, False, True),
    Action.MAKE_PROJECT: (False, False, False, False, True),
    Action.PRESETS: (False, False, False, True, True),
    Action.PRESET_VARIABLES: (False, False, False, False, True),
    Action.BUDGET: (False, False, False, False, True),
    Action.CHANGE_PERSON: (False, False, False, False, True),
    Action.DRAIN: (False, False, False, False, True),
    Action.BOOK: (False, False, False, False, True),
    Action.FREE_GPUS: (False, False, False, False, True),
    Action.SEE_AUDIT: (False, False, False, True, True),
    Action.UNDO: (False, False, False, False, True),
}
"""May each role, from others to pool admin, do it to another person's jobs? Written by hand, unlike `TABLE`."""
OWN = {
    Action.SEE: (True, True, True, True, True),
    Action.STOP: (True, True, True, True, True),
    Action.RESUME: (False, False, True, True, True),
    Action.RERUN: (False, False, True, True, True),
    Action.ENTER: (False, False, True, True, True),
    Action.DELETE_CHECKPOINTS: (True, True, True, True, True),
    Action.DELETE: (True, True, True, True, True),
    Action.EDIT: (False, False, True, True, True),
    Action.TAG: (True, True, True, True, True),
    Action.REPORT: (True, True, True, True, True),
}
CELLS = [(action, role, EXPECTED[action][role], "susan") for action in Action for role in Role]
CELLS += [(action, role, may[role], NAMES[role]) for action, may in OWN.items() for role in Role]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("action", "role", "allowed", "user"), CELLS, ids=[f"{a.name}-{r.name}-{u}" for a, r, _, u in CELLS]
)
async def test_a_cell_of_the_table_holds(
    shared_pool: Any, action: Action, role: Role, allowed: bool, user: str
) -> None:
    answer = await TRY[action](shared_pool, shared_pool.as_(NAMES[role]), user)
    assert (answer.status_code not in DENIED) is allowed, answer.text
    assert answer.status_code < 500


def test_the_table_says_the_same() -> None:
    others = {
        action: tuple(rule.role is not None and role >= rule.role for role in Role)
        for action, rule in TABLE.items()
    }
    assert others == EXPECTED
    owns = {action: rule.own for action, rule in TABLE.items() if rule.own is not None}
    assert {
        action: tuple(role >= own or EXPECTED[action][role] for role in Role) for action, own in owns.items()
    } == OWN


async def test_an_admin_of_a_project_is_shown_its_part_of_the_tree_alone(pool: Any) -> None:
    shown = (await pool.as_(NAMES[Role.PROJECT_ADMIN]).get("/admin")).json()
    assert {project["name"] for project in shown["projects"]} == {PROJECT, INSIDE}
    assert {person["name"] for person in shown["people"]} == {"susan", "joe"}
    assert (await pool.as_(NAMES[Role.MEMBER]).get("/admin")).status_code == 403


async def test_an_admin_of_a_project_divides_what_it_has_and_no_more(pool: Any) -> None:
    client = pool.as_(NAMES[Role.PROJECT_ADMIN])
    more = await client.patch(f"/projects/{INSIDE}", json={"quota": 3})
    assert (more.status_code, "the quota of “vision” is 2" in more.json()["message"]) == (409, True)
    build = await client.patch(f"/projects/{INSIDE}", json={"build_quota": 1})
    assert (build.status_code, build.json()["field"]) == (403, "build_quota")


async def test_a_viewer_is_not_told_of_projects_in_the_form(pool: Any) -> None:
    me = (await pool.as_(NAMES[Role.VIEWER]).get("/me")).json()
    assert me["projects"] == []
