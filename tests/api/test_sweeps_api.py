"""The calls of sweeps, with real processes."""

from __future__ import annotations

SCRIPT = (
    'echo \'{"attempt": 1, "trial": {"parameters": null, "value": \'$SPRINGTIDE_TRIAL\'}}\' '
    '>> "$SPRINGTIDE_REPORT"; test "$SPRINGTIDE_TRIAL" != 2'
)


async def sweep(person, number=4, **more: object):
    trials = {"number": number, "parameters": [{"n": n} for n in range(number)], "goal": "maximize", **more}
    answer = await person.post("/jobs", json={"argv": ["sh", "-c", SCRIPT], "name": "search", "trials": trials})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_a_sweep_goes_from_submission_to_its_best_trial(running):
    susan = running.as_("susan")
    job = await sweep(susan)
    assert (job["trials"]["number"], job["sweep"], job["outcome"]) == (4, None, None)
    done = await running.until("susan", job["id"], lambda job: job["ended"] is not None)
    assert (done["state"], done["trials"]["succeeded"], done["trials"]["failed"]) == ("succeeded", 3, 1)
    assert done["trials"]["best"] == {"trial": 3, "job": f"{job['id']}t3", "value": 3.0, "parameters": {"n": 3}}
    page = (await susan.get(f"/jobs/{job['id']}/trials?sort=-value&limit=2")).json()
    assert [(row["trial"], row["value"], row["parameters"]) for row in page["items"]] == [
        (3, 3.0, {"n": 3}),
        (2, 2.0, {"n": 2}),
    ]
    rest = (await susan.get(f"/jobs/{job['id']}/trials?sort=-value&cursor={page['next']}")).json()
    assert [row["trial"] for row in rest["items"]] == [1, 0]
    trial = (await susan.get(f"/jobs/{job['id']}t2")).json()
    assert (trial["sweep"], trial["trial"], trial["state"], trial["name"]) == (job["id"], 2, "failed", "search #2")


async def test_lists_show_a_sweep_as_one_row_and_its_trials_when_asked(running):
    susan = running.as_("susan")
    job = await sweep(susan)
    await running.until("susan", job["id"], lambda job: job["ended"] is not None)
    assert [item["id"] for item in (await susan.get("/jobs")).json()["items"]] == [job["id"]]
    trials = (await susan.get(f"/jobs?sweep={job['id']}")).json()["items"]
    assert sorted(item["trial"] for item in trials) == [0, 1, 2, 3]


async def test_who_may_not_see_a_sweep_does_not_see_its_trials(running):
    job = await sweep(running.as_("susan"))
    jemma = running.as_("jemma")
    assert (await jemma.get(f"/jobs/{job['id']}/trials")).status_code == 404
    assert (await jemma.post(f"/jobs/{job['id']}/retry", json={})).status_code == 404
    assert (await jemma.patch(f"/jobs/{job['id']}/trials", json={"number": 9})).status_code == 404
    assert (await jemma.get(f"/jobs?sweep={job['id']}")).json()["items"] == []


async def test_a_sweep_is_changed_while_it_is_unfinished_only(running):
    susan = running.as_("susan")
    job = await sweep(susan, number=30, at_most=1)
    edited = (await susan.patch(f"/jobs/{job['id']}/trials", json={"number": 20, "at_most": 2})).json()
    assert (edited["trials"]["number"], edited["trials"]["at_most"]) == (20, 2)
    assert (await susan.patch(f"/jobs/{job['id']}/trials", json={"number": 99})).status_code == 422
    assert (await susan.post(f"/jobs/{job['id']}/cancel", json={})).status_code == 200
    await running.until("susan", job["id"], lambda job: job["ended"] is not None)
    refused = await susan.post(f"/jobs/{job['id']}/retry", json={})
    assert (refused.status_code, refused.json()["code"]) == (409, "ended")
    assert (await susan.get(f"/jobs/{job['id']}t0/trials")).status_code == 404


async def test_unknown_orders_states_and_cursors_are_refused(running):
    susan = running.as_("susan")
    job = await sweep(susan, at_most=1)
    for query in ("sort=colour", "state=lazy", "cursor=x", "limit=0", "limit=1001", "colour=red"):
        assert (await susan.get(f"/jobs/{job['id']}/trials?{query}")).status_code == 422, query
