from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from patience import PATIENCE_S


async def test_a_job_goes_from_submission_to_its_result(running):
    susan = running.as_("susan")
    answer = await susan.post(
        "/jobs", json={"argv": ["sh", "-c", "echo hello; echo data > $SPRINGTIDE_OUTPUT_DIR/x"]}
    )
    assert answer.status_code == 201
    job = answer.json()
    assert (job["user"], job["project"]) == ("susan", "vision")
    done = await running.until("susan", job["id"], lambda job: job["state"] == "succeeded")
    assert done["exit_code"] == 0
    log = (await susan.get(f"/jobs/{job['id']}/log")).json()
    assert (log["text"], log["size"], log["ended"]) == ("hello\n", 6, True)
    listed = (await susan.get(f"/jobs/{job['id']}/output")).json()
    assert [(file["name"], file["size"]) for file in listed["items"]] == [("x", 5)]
    assert listed["more"] is False
    assert (await running.as_("jemma").get(f"/jobs/{job['id']}/output")).status_code == 404
    output = await susan.get(f"/jobs/{job['id']}/output/x")
    assert output.content == b"data\n"
    assert output.headers["Content-Type"] == "application/octet-stream"
    assert output.headers["Content-Disposition"].startswith("attachment")
    assert (await susan.get(f"/jobs/{job['id']}/points")).json() == {"items": [], "next": 0}


async def test_the_same_key_answers_the_same_job(running):
    susan = running.as_("susan")
    first = await susan.post("/jobs", json={"argv": ["true"], "key": "k"})
    second = await susan.post("/jobs", json={"argv": ["true"], "key": "k"})
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]


async def test_a_key_of_somebody_else_is_another_key(running):
    first = await running.submit("susan", "true", key="k")
    second = await running.submit("jemma", "true", key="k")
    assert first["id"] != second["id"]


async def test_a_hundred_submissions_at_once_are_all_accepted_once_and_never_share_a_gpu(running):
    susan = running.as_("susan")
    answers = await asyncio.gather(*(susan.post("/jobs", json={"argv": ["sleep", "600"]}) for _ in range(100)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 100
    pool = (await susan.get("/pool")).json()
    holders = [gpu["holder"]["job"] for node in pool["nodes"] for gpu in node["gpus"] if gpu["holder"]]
    assert len(holders) == len(set(holders)) == 4
    assert {node["environment"] for node in pool["nodes"] for gpu in node["gpus"] if gpu["holder"]} == {"train"}


async def test_a_job_is_paused_and_resumed_and_cancelled_by_its_owner(running):
    job = await running.submit("susan")
    susan = running.as_("susan")
    await running.until("susan", job["id"], lambda job: job["state"] == "running")
    assert (await susan.post(f"/jobs/{job['id']}/pause")).status_code == 200
    paused = await running.until("susan", job["id"], lambda job: job["state"] == "paused")
    assert paused["held_by_user"]
    assert (await susan.post(f"/jobs/{job['id']}/resume")).status_code == 200
    again = await running.until("susan", job["id"], lambda job: job["state"] == "running")
    assert again["attempt"] == 2
    assert (await susan.post(f"/jobs/{job['id']}/cancel", json={})).status_code == 200
    await running.until("susan", job["id"], lambda job: job["state"] == "cancelled")


async def test_what_a_job_was_asked_already_it_does_once(running):
    job = await running.submit("susan")
    susan = running.as_("susan")
    await running.until("susan", job["id"], lambda job: job["state"] == "running")
    for what, state, attempts in [("pause", "paused", 1), ("resume", "running", 2), ("cancel", "cancelled", 2)]:
        answers = [await susan.post(f"/jobs/{job['id']}/{what}") for _ in range(2)]
        assert [answer.status_code for answer in answers] == [200, 200]
        then = await running.until("susan", job["id"], lambda job, state=state: job["state"] == state)
        assert then["attempt"] == attempts
        assert (await susan.post(f"/jobs/{job['id']}/{what}")).json()["state"] == state


async def test_members_see_their_projects_jobs_but_only_owner_and_administrators_control_them(running):
    job = await running.submit("susan")
    for name, sees, controls in [("joe", 200, 403), ("jemma", 404, 404), ("admin", 200, 200), ("bot", 404, 404)]:
        client = running.as_(name)
        for part in ("", "/log", "/points"):
            assert (await client.get(f"/jobs/{job['id']}{part}")).status_code == sees
        for act in ("pause", "resume", "cancel", "end"):
            assert (await client.post(f"/jobs/{job['id']}/{act}")).status_code == controls


async def test_a_job_one_may_not_see_is_like_one_that_is_not_there(running):
    job = await running.submit("susan")
    jemma = running.as_("jemma")
    hidden = (await jemma.get(f"/jobs/{job['id']}")).json()
    missing = (await jemma.get("/jobs/nosuchjob123")).json()
    assert hidden["status"] == missing["status"] == 404
    assert hidden["code"] == missing["code"]
    assert hidden["message"].replace(job["id"], "X") == missing["message"].replace("nosuchjob123", "X")


async def test_a_list_tells_only_what_the_caller_may_see(running):
    own = await running.submit("susan", name="own")
    colleague = await running.submit("joe", name="colleague")
    await running.submit("jemma", name="stranger")

    async def ids(name: str, query: str = "") -> set[str]:
        return {job["id"] for job in (await running.as_(name).get(f"/jobs{query}")).json()["items"]}

    assert await ids("susan") == {own["id"], colleague["id"]}
    assert await ids("susan", "?mine=1") == {own["id"]}
    assert await ids("susan", "?user=joe") == {colleague["id"]}
    assert await ids("susan", "?project=speech") == set()
    assert await ids("susan", "?user=jemma") == set()
    assert len(await ids("admin")) == 3
    assert await ids("bot") == set()


async def test_somebody_who_left_a_project_keeps_her_job_but_cannot_run_it_on(running):
    job = await running.submit("susan")
    susan = running.as_("susan")
    await susan.post(f"/jobs/{job['id']}/pause")
    running.people.leave("susan", "vision")
    assert (await susan.get(f"/jobs/{job['id']}")).status_code == 200
    refused = await susan.post(f"/jobs/{job['id']}/resume")
    assert refused.status_code == 403
    assert "no longer in project “vision”" in refused.json()["message"]
    assert (await susan.post("/jobs", json={"argv": ["true"], "project": "vision"})).status_code == 403
    assert (await susan.post(f"/jobs/{job['id']}/cancel")).status_code == 200


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("name", "project", "status", "words"),
    [
        ("susan", "speech", 403, "You are not in project “speech”."),
        ("susan", "nowhere", 422, "There is no project “nowhere”."),
        ("bot", "vision", 403, "You are not in project “vision”."),
        ("bot", None, 422, "does not say for which project"),
        ("springtide", "vision", 403, "You are not in project “vision”."),
        ("admin", None, 422, "does not say for which project"),
    ],
)
async def test_nobody_submits_for_a_project_of_others(shared, name, project, status, words):
    body = {"argv": ["true"]} if project is None else {"argv": ["true"], "project": project}
    answer = await shared.as_(name).post("/jobs", json=body)
    assert (answer.status_code, answer.json()["field"]) == (status, "project")
    assert words in answer.json()["message"]


async def test_whoever_joins_a_second_project_goes_on_submitting_for_the_first(running):
    joe = running.as_("joe")
    before = await running.submit("joe", project="vision")
    running.people.join("joe", "speech")
    assert (await joe.post("/jobs", json={"argv": ["true"]})).json()["project"] == before["project"]


async def test_whoever_has_several_projects_and_no_job_yet_is_told_how_to_name_one(running):
    running.people.join("joe", "speech")
    answer = (await running.as_("joe").post("/jobs", json={"argv": ["true"]})).json()
    assert 'project="speech"' in answer["hint"]


async def test_jobs_that_name_no_project_are_for_the_default_project_of_their_user(running):
    running.people.join("joe", "speech")
    joe = running.as_("joe")
    assert (await joe.get("/me")).json()["default_project"] is None
    await running.submit("joe", project="vision")
    chosen = await joe.patch("/me", json={"default_project": "speech"})
    assert (chosen.status_code, chosen.json()["default_project"]) == (200, "speech")
    assert (await joe.post("/jobs", json={"argv": ["true"]})).json()["project"] == "speech"
    await running.submit("joe", project="vision")
    assert (await joe.patch("/me", json={})).json()["default_project"] == "speech"
    await joe.patch("/me", json={"default_project": None})
    assert (await joe.post("/jobs", json={"argv": ["true"]})).json()["project"] == "vision"


async def test_somebody_who_left_the_default_project_is_told_and_nothing_is_submitted(running):
    running.people.join("joe", "speech")
    joe = running.as_("joe")
    await joe.patch("/me", json={"default_project": "speech"})
    running.people.leave("joe", "speech")
    for path, body in (("/jobs", {"argv": ["true"]}), ("/forecast", {"job": {}})):
        refused = await joe.post(path, json=body)
        said = refused.json()
        assert (refused.status_code, said["code"], said["field"]) == (403, "default_project", "project")
        assert "“speech”, and you are not in it any more. Nothing was submitted." in said["message"]
        assert 'pool.default_project = "vision"' in said["hint"]
    assert (await joe.get("/jobs?mine=true")).json()["items"] == []
    assert (await joe.post("/jobs", json={"argv": ["true"], "project": "vision"})).status_code == 201


@pytest.mark.parametrize(
    ("name", "project", "status", "field"),
    [
        ("joe", "speech", 403, "default_project"),
        ("joe", "nowhere", 422, "default_project"),
        ("bot", "vision", 403, None),
        ("springtide", "vision", 403, None),
    ],
)
async def test_nobody_chooses_a_default_project_of_others(running, name, project, status, field):
    answer = await running.as_(name).patch("/me", json={"default_project": project})
    assert (answer.status_code, answer.json()["field"]) == (status, field)


async def test_an_administrator_may_submit_for_any_project(running):
    job = await running.submit("admin", project="speech")
    assert (job["user"], job["project"]) == ("admin", "speech")


@pytest.mark.parametrize("field", ["user", "owner", "id", "state"])
async def test_who_one_is_cannot_be_said_in_a_body(running, field):
    answer = await running.as_("susan").post("/jobs", json={"argv": ["true"], field: "joe"})
    assert (answer.status_code, answer.json()["field"]) == (422, field)


async def test_pages_of_a_list_do_not_overlap_and_leave_nothing_out(running):
    made = [(await running.submit("susan", gpus=4))["id"] for _ in range(7)]
    susan = running.as_("susan")
    seen: list[str] = []
    cursor = ""
    while True:
        page = (await susan.get(f"/jobs?limit=3{cursor}")).json()
        seen += [job["id"] for job in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert seen == list(reversed(made))


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=100000", "limit"),
        ("limit=x", "limit"),
        ("state=dancing", "state"),
        ("cursor=%00%ff", "cursor"),
        ("cursor=nonsense", "cursor"),
        ("order=1up", "order"),
        ("mine=1&mine=0", "mine"),
        ("project=nope", "project"),
    ],
)
async def test_a_wrong_parameter_of_a_list_is_named(shared, query, field):
    answer = await shared.as_("susan").get(f"/jobs?{query}")
    assert (answer.status_code, answer.json()["field"]) == (422, field)


async def test_a_log_can_be_waited_for(running):
    job = await running.submit("susan", "sh", "-c", "echo one; sleep 0.5; echo two; sleep 600")
    susan = running.as_("susan")
    text, offset = "", 0
    async with asyncio.timeout(PATIENCE_S):
        while text != "one\ntwo\n":
            piece = (await susan.get(f"/jobs/{job['id']}/log?offset={offset}&wait=20")).json()
            text, offset = text + piece["text"], piece["next"]


BIG = 64 * 1024 * 1024
WRITES = f"""
import os
with open(os.environ["SPRINGTIDE_OUTPUT_DIR"] + "/big", "wb") as file:
    for number in range({BIG >> 20}):
        file.write(bytes([number]) * (1 << 20))
"""


async def a_big_output(running):
    job = await running.submit("susan", "python3", "-c", WRITES)
    await running.until("susan", job["id"], lambda job: job["state"] == "succeeded")
    return f"/jobs/{job['id']}/output/big"


async def test_slow_readers_of_a_large_output_take_no_memory_each(start):
    running = await start()
    path = await a_big_output(running)
    before = resident()
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(4):
            answer = await stack.enter_async_context(running.as_("susan").stream("GET", path))
            assert answer.headers["Content-Length"] == str(BIG)
            assert await anext(answer.aiter_raw(1)) == b"\0"
        assert resident() - before < BIG / 2


async def test_a_large_output_comes_whole_and_in_order(running):
    path = await a_big_output(running)
    content = (await running.as_("susan").get(path)).content
    assert len(content) == BIG
    assert all(content[at] == at >> 20 for at in range(0, BIG, 1 << 19))


@pytest.mark.parametrize("size", [257 << 20, 5 << 30])
async def test_an_output_is_given_however_large_it_is(running, size):
    leaves = f"import os; os.truncate(os.open(os.environ['SPRINGTIDE_OUTPUT_DIR'] + '/big', 65), {size})"
    job = await running.submit("susan", "python3", "-c", leaves)
    await running.until("susan", job["id"], lambda job: job["state"] == "succeeded")
    async with running.as_("susan").stream("GET", f"/jobs/{job['id']}/output/big") as answer:
        assert (answer.status_code, answer.headers["Content-Length"]) == (200, str(size))
        assert await anext(answer.aiter_raw(1)) == b"\0"


async def test_one_person_fetches_so_many_outputs_at_a_time_and_no_more(running):
    path = await a_big_output(running)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(running.pool.downloads.most):
            answer = await stack.enter_async_context(running.as_("susan").stream("GET", path))
            assert answer.status_code == 200
        refused = await running.as_("susan").get(path)
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_downloads")
        assert refused.headers["Retry-After"] == "1"
        async with running.as_("joe").stream("GET", path) as other:
            assert other.status_code == 200
    async with asyncio.timeout(PATIENCE_S):
        while (await running.as_("susan").get(path)).status_code != 200:
            await asyncio.sleep(0.02)


async def test_a_reader_of_an_output_that_takes_nothing_is_let_go(running, monkeypatch):
    monkeypatch.setattr("springtide.hub_extension.api.endpoint.STALLED_S", 0.2)
    path = await a_big_output(running)
    async with running.as_("susan").stream("GET", path) as answer:
        async with asyncio.timeout(PATIENCE_S):
            while running.pool.downloads._held:
                await asyncio.sleep(0.02)
        with pytest.raises(httpx.RemoteProtocolError):
            await answer.aread()


def resident():
    """Bytes of memory that this process has, the service in it."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("name", ["..%2F..%2Fsecret", "%2Fetc%2Fpasswd", "x%00y", "nothing", "a/../../x"])
async def test_an_output_outside_the_jobs_own_directory_is_not_there(running, name):
    job = await running.submit("susan", "true")
    await running.until("susan", job["id"], lambda job: job["state"] == "succeeded")
    answer = await running.as_("susan").get(f"/jobs/{job['id']}/output/{name}")
    assert answer.status_code in {404, 422}
    assert answer.json()["code"]


async def test_a_flood_of_one_person_is_held_back_while_others_go_on(start):
    running = await start(rate=0.5, burst=5, rate_clock=lambda: 100.0)  # all of them come at one moment
    susan = running.as_("susan")
    answers = await asyncio.gather(*(susan.post("/jobs", json={"argv": ["true"]}) for _ in range(40)))
    refused = [answer for answer in answers if answer.status_code == 429]
    assert sorted({answer.status_code for answer in answers}) == [201, 429]
    assert len(refused) == 35
    assert {answer.headers["Retry-After"] for answer in refused} == {"2"}
    assert refused[0].json()["hint"].startswith("Try again in")
    assert (await running.as_("jemma").post("/jobs", json={"argv": ["true"]})).status_code == 201
    assert (await susan.get("/pool")).status_code == 200


async def test_a_full_queue_of_one_person_is_told_so_while_others_go_on(start):
    running = await start(most=3)
    susan = running.as_("susan")
    answers = [await susan.post("/jobs", json={"argv": ["sleep", "600"]}) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [201, 201, 201, 429]
    assert int(answers[3].headers["Retry-After"]) > 0
    assert answers[3].json()["hint"]
    assert (await running.as_("joe").post("/jobs", json={"argv": ["true"]})).status_code == 201
    assert (await susan.post(f"/jobs/{answers[0].json()['id']}/cancel")).status_code == 200
    await running.until("susan", answers[0].json()["id"], lambda job: job["state"] == "cancelled")
    assert (await susan.post("/jobs", json={"argv": ["true"]})).status_code == 201


async def test_several_jobs_are_paused_resumed_and_cancelled_each_by_itself(running):
    jobs = [await running.submit("susan") for _ in range(3)]
    other = await running.submit("jemma", project="speech")
    susan = running.as_("susan")
    ids = [job["id"] for job in jobs]

    async def act(action, chosen):
        answer = await susan.post("/jobs/actions", json={"action": action, "jobs": chosen})
        assert answer.status_code == 200
        return answer.json()["results"]

    paused = await act("pause", [*ids, other["id"], "nowhere"])
    assert [result["id"] for result in paused] == [*ids, other["id"], "nowhere"]
    assert all(result["job"]["held_by_user"] for result in paused[:3])
    assert [result["problem"]["status"] for result in paused[3:]] == [404, 404]
    resumed = await act("resume", ids)
    assert not any(result["job"]["held_by_user"] for result in resumed)
    assert all(result["job"] for result in await act("cancel", ids))
    await running.until("susan", ids[0], lambda job: job["state"] == "cancelled")
    again = await act("resume", ids[:1])
    assert "cancelled" in again[0]["problem"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        {"action": "destroy", "jobs": ["a"]},
        {"action": "pause", "jobs": []},
        {"action": "pause", "jobs": ["a"] * 201},
    ],
)
async def test_what_cannot_be_done_with_several_jobs_is_refused(running, body):
    answer = await running.as_("susan").post("/jobs/actions", json=body)
    assert answer.status_code == 422


async def test_jobs_are_listed_in_an_order_and_searched_page_after_page(running):
    for name in ("ze-ta", "alpha", "be-ta"):  # no id has a hyphen
        await running.submit("susan", name=name)
    susan = running.as_("susan")
    first = (await susan.get("/jobs", params={"order": "name", "limit": 2, "starts": 0})).json()
    rest = (await susan.get("/jobs", params={"order": "name", "limit": 2, "cursor": first["next"]})).json()
    assert [job["name"] for job in first["items"] + rest["items"]] == ["alpha", "be-ta", "ze-ta"]
    assert rest["next"] is None
    found = (await susan.get("/jobs", params={"search": "E-T", "order": "-name"})).json()["items"]
    assert [job["name"] for job in found] == ["ze-ta", "be-ta"]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("field", "params"),
    [
        ("order", {"order": "colour"}),
        ("cursor", {"order": "name", "cursor": "x"}),
        ("cursor", {"order": "name", "cursor": "WzEsMl0="}),
        ("cursor", {"order": "running", "cursor": "WyJhIiwyXQ=="}),
        ("cursor", {"cursor": "WzEsMl0="}),
    ],
)
async def test_an_unknown_order_or_cursor_is_refused(shared, field, params):
    await shared.submit("susan")
    answer = await shared.as_("susan").get("/jobs", params=params)
    assert (answer.status_code, answer.json()["field"]) == (422, field)


async def test_a_job_that_ended_with_0_when_asked_to_pause_is_marked_as_finished(running):
    job = await running.submit("susan")
    early = await running.as_("susan").post(f"/jobs/{job['id']}/finish")
    assert (early.status_code, early.json()["code"]) == (409, "not_finishable")
    stranger = await running.as_("jemma").post(f"/jobs/{job['id']}/finish")
    assert stranger.status_code in {403, 404}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("search", ["%00", "a%00b", "%1b"])
async def test_a_search_for_what_no_name_has_is_refused(shared, search):
    answer = await shared.as_("susan").get(f"/jobs?search={search}")
    assert (answer.status_code, answer.json()["field"]) == (422, "search")


REPORTS = """
import json, os
for step, (loss, acc) in enumerate([(3.0, 0.1), (1.0, 0.4), (2.0, 0.2)]):
    line = {"attempt": 1, "step": step, "values": {"loss": loss, "acc": acc}}
    open(os.environ["SPRINGTIDE_REPORT"], "a").write(json.dumps(line) + chr(10))
"""


async def test_metrics_have_last_and_best_values_and_those_at_a_step(running: Any) -> None:
    job = await running.submit("susan", sys.executable, "-c", REPORTS)
    api = running.as_("susan")
    await running.until("susan", job["id"], lambda job: job["state"] == "succeeded")
    found = (await api.get(f"/jobs/{job['id']}/metrics?step=0")).json()["items"]
    assert found == [
        {"name": "loss", "last": 2.0, "best": {"value": 1.0, "step": 1.0, "goal": "min"}, "at_step": 3.0},
        {"name": "acc", "last": 0.2, "best": {"value": 0.4, "step": 1.0, "goal": "max"}, "at_step": 0.1},
    ]
    largest = (await api.get(f"/jobs/{job['id']}/metrics?goal=max")).json()["items"][0]
    assert largest["best"] == {"value": 3.0, "step": 0.0, "goal": "max"}
    assert (await api.get(f"/jobs/{job['id']}")).json()["progress"]["best"]["loss"]["value"] == 1.0
    assert (await running.as_("jemma").get(f"/jobs/{job['id']}/metrics")).status_code == 404


async def test_a_job_that_is_resumed_while_it_still_pauses_says_so(running):
    job = (await running.submit("susan", "sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"))["id"]
    await running.until("susan", job, lambda found: found["state"] == "running")
    api = running.as_("susan")
    paused = (await api.post(f"/jobs/{job}/pause")).json()
    assert "It runs again when it is resumed." in paused["reason"]["text"]
    resumed = (await api.post(f"/jobs/{job}/resume")).json()
    said = resumed["reason"]["text"]
    assert "It was paused by “susan”, and resumed before it had stopped. It runs again by itself" in said
    assert "when it is resumed" not in said
    await api.post(f"/jobs/{job}/cancel")
