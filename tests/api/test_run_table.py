"""The table of runs: conditions, orders by values, marks, and its export."""

from __future__ import annotations

import csv
import io
import sys
from typing import Any

import pytest

REPORT = """
import json, os, sys
lr = float(sys.argv[1].partition("=")[2])
for step, loss in enumerate([1.0, lr, 0.9]):
    line = {"attempt": 1, "step": step, "values": {"loss": loss}}
    open(os.environ["SPRINGTIDE_REPORT"], "a").write(json.dumps(line) + chr(10))
"""


async def names(api: Any, **query: Any) -> list[str]:
    answer = await api.get("/jobs", params=query)
    assert answer.status_code == 200, answer.text
    return [job["name"] for job in answer.json()["items"]]


@pytest.fixture
async def runs(running: Any, tmp_path: Any) -> dict[str, Any]:
    script = tmp_path / "train.py"
    script.write_text(REPORT)
    found = {}
    for lr in (0.3, 0.1, 0.2):
        job = await running.submit("susan", sys.executable, str(script), f"--lr={lr}", name=f"lr {lr}", gpus=1)
        found[job["name"]] = job
    for job in found.values():
        await running.until("susan", job["id"], lambda job: job["state"] == "succeeded")
    plain = await running.submit("susan", "true", name="plain")
    return {**found, "plain": plain}


async def test_jobs_are_found_and_sorted_by_arguments_and_metrics(running: Any, runs: Any) -> None:
    api = running.as_("susan")
    assert await names(api, where="lr > 0.1 and best.loss < 0.25") == ["lr 0.2"]
    assert await names(api, where="loss = 0.9", order="argument.lr") == ["lr 0.1", "lr 0.2", "lr 0.3"]
    assert await names(api, order="-best.loss") == ["lr 0.3", "lr 0.2", "lr 0.1", "plain"]
    assert await names(api, where="not lr") == ["plain"]
    assert await names(api, where="lr", order="name") == ["lr 0.1", "lr 0.2", "lr 0.3"]
    assert await names(api, where="lr", order="newest", limit=2) == ["lr 0.2", "lr 0.1"]
    assert await names(api, where="lr", search="0.3") == ["lr 0.3"]
    assert await names(api, search="--LR 0.2") == ["lr 0.2"]
    assert await names(api, search="--lr", order="name") == ["lr 0.1", "lr 0.2", "lr 0.3"]
    assert await names(running.as_("jemma"), search="--lr") == []
    assert await names(running.as_("jemma"), where="lr > 0") == []
    first = (await api.get("/jobs", params={"order": "argument.lr", "limit": 3})).json()
    assert [job["name"] for job in first["items"]] == ["lr 0.1", "lr 0.2", "lr 0.3"]
    assert await names(api, order="argument.lr", limit=3, cursor=first["next"]) == ["plain"]
    assert first["looked_at"] is None


@pytest.mark.parametrize(
    ("query", "field", "message"),
    [
        ({"where": "lr >"}, "where", "The condition ends too early: expected a value after “>”."),
        ({"where": "(" * 100}, "where", "There are more than 20 brackets inside each other."),
        ({"order": "a b"}, "order", "“a b” is no order of jobs."),
        (
            {"where": "state = runing"},
            "where",
            "“runing” at character 9 is no state of a job. Did you mean running?",
        ),
        ({"order": "best.loss", "cursor": "x"}, "cursor", "“x” is not a cursor of this list."),
    ],
)
async def test_a_wrong_condition_or_order_is_refused_in_words(
    running: Any, query: Any, field: str, message: str
) -> None:
    answer = await running.as_("susan").get("/jobs", params=query)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert answer.json()["message"] == message


async def test_a_name_that_no_job_has_is_refused_with_those_that_they_have(running: Any, runs: Any) -> None:
    api = running.as_("susan")
    assert await names(api, where="lr > 0", order="-loss") == ["lr 0.2", "lr 0.1", "lr 0.3"]
    assert await names(api, where="lr > 0", order="lr") == ["lr 0.1", "lr 0.2", "lr 0.3"]
    for query, field in (({"where": "lr > 0.1 or los < 1"}, "where"), ({"order": "-los"}, "order")):
        answer = await api.get("/jobs", params=query)
        assert (answer.status_code, answer.json()["field"], answer.json()["code"]) == (422, field, "unknown_name")
        assert answer.json()["message"] == "“los” is no column, and no argument or metric of 4 jobs looked at."
        assert answer.json()["hint"].startswith("Did you mean “loss”? Known are lr, loss, id, name, user,")
    assert await names(api, where="last.los < 1") == []


async def test_a_metric_that_no_job_has_is_noted_with_those_that_they_have(running: Any, runs: Any) -> None:
    async def note(user: str = "susan", **query: str) -> str:
        return str((await running.as_(user).get("/jobs", params=query)).json()["note"])

    los = "None of the 4 jobs looked at has the metric “los”. Did you mean “loss”? Known is “loss”."
    assert await note(where="best.los < 1 or last.los < 1") == await note(order="-best.los") == los
    assert await note(order="argument.rate") == (
        "None of the 4 jobs looked at has the argument “rate”. Known is “lr”."
    )
    assert await note(order="best.loss", where="argument.lr > 0") == ""
    assert await note("jemma", order="best.los") == "", "nothing was looked at"
    await running.submit("jemma", "true")
    assert await note("jemma", order="best.los") == (
        "The job looked at does not have the metric “los”. No metric is known of it."
    )


MANY = """
import os
from springtide.training.job import Job
job = Job(os.environ)
job.report(step=1, **{f"m{number}": number for number in range(1000)})
job.report(step=2, val_loss=0.1)
job.report(step=3, **{f"n{number}": 1 for number in range(100)})
"""


async def test_a_job_of_many_metrics_is_found_by_the_best_value_of_each_that_is_kept(
    running: Any, tmp_path: Any
) -> None:
    script = tmp_path / "many.py"
    script.write_text(MANY)
    job = await running.submit("susan", sys.executable, str(script), name="many")
    job = await running.until("susan", job["id"], lambda job: job["state"] == "succeeded")
    api = running.as_("susan")
    assert list(job["progress"]["best"]) == list(job["progress"]["values"])
    assert await names(api, where="best.val_loss < 0.3 and best.m999 = 999 and n22 = 1") == ["many"]
    beyond = (await api.get("/jobs", params={"where": "best.n23 = 1"})).json()
    assert beyond["items"] == []
    assert beyond["note"].startswith("The job looked at does not have the metric “n23”.")
    assert beyond["note"].endswith("Of each job the first 1,024 metrics are kept.")
    (row,) = csv.DictReader(io.StringIO((await api.get("/jobs.csv")).text))
    assert [float(row[name]) for name in ("best.val_loss", "best.m999")] == [0.1, 999]


async def test_names_without_a_prefix_are_not_looked_for_where_there_are_no_jobs(running: Any) -> None:
    assert await names(running.as_("jemma"), where="los < 1") == []


async def test_a_training_that_has_diverged_is_seen_as_one(running: Any, tmp_path: Any) -> None:
    odd = "lo\\ud800ss"
    script = tmp_path / "train.py"
    script.write_text(f"""
import json, os
from springtide.training import current_job
for step, loss in enumerate([0.9, 0.5, float("nan"), float("nan")]):
    current_job().report(step=step, of=4, loss=loss, accuracy=float("inf"), **{{"{odd}": loss}})
line = {{"attempt": 1, "step": 4, "values": {{"a" * 127: float("-inf"), "{odd}": "NaN", "x": "nan"}}}}
open(os.environ["SPRINGTIDE_REPORT"], "a").write(json.dumps(line) + chr(10))
""")
    job = await running.submit("susan", sys.executable, str(script), name="diverges")
    fine = await running.submit("susan", "true", name="fine")
    for each in (job, fine):
        found = await running.until("susan", each["id"], lambda each: each["ended"] is not None)
    found = await running.until("susan", job["id"], lambda each: each["ended"] is not None)
    progress = found["progress"]
    cleaned, best = "lo ss", {"value": 0.5, "step": 1.0, "goal": "min"}
    assert progress["values"] == {"loss": "NaN", "accuracy": "Infinity", cleaned: "NaN", "a" * 127: "-Infinity"}
    assert progress["not_finite"] == {"loss": 2.0, "accuracy": 0.0, cleaned: 2.0, "a" * 127: 4.0}
    assert progress["best"] == {"loss": best, cleaned: best}
    assert found["reason"]["headline"] == "Finished. “accuracy” not finite since step 0."
    assert (
        "The metric “accuracy” has not been a finite number since step 0. Neither are 3 other metrics."
        in found["reason"]["text"]
    )
    api = running.as_("susan")
    assert await names(api, where="loss = nan and best.loss = 0.5") == ["diverges"]
    assert await names(api, where="loss > 0") == await names(api, where="loss < 0") == []
    assert await names(api, where="accuracy > 1") == ["diverges"]
    metrics = (await api.get(f"/jobs/{job['id']}/metrics", params={"step": 1})).json()["items"]
    assert metrics[0] == {
        "name": "loss",
        "last": "NaN",
        "best": {"value": 0.5, "step": 1.0, "goal": "min"},
        "at_step": 0.5,
    }
    assert (metrics[1]["last"], metrics[1]["best"]) == ("Infinity", None)
    points = (await api.get(f"/jobs/{job['id']}/points")).json()["items"]
    assert [point["values"].get("loss") for point in points] == [0.9, 0.5, "NaN", "NaN", None]
    rows = list(csv.DictReader(io.StringIO((await api.get("/jobs.csv")).text)))
    assert [(row["last.loss"], row["best.loss"]) for row in rows] == [("", ""), ("nan", "0.5")]


async def test_marks_are_kept_and_lists_follow_them(running: Any) -> None:
    one, other = [await running.submit("susan", "true", name=name) for name in ("one", "other")]
    api = running.as_("susan")
    for job in (one, other):
        await running.until("susan", job["id"], lambda job: job["state"] == "succeeded")
    marked = await api.patch(f"/jobs/{one['id']}", json={"note": " good\nstart ", "pinned": True})
    assert (marked.json()["note"], marked.json()["pinned"]) == ("good\nstart", True)
    assert await names(api, pinned="1") == ["one"]
    assert await names(api, where="note ~ start") == ["one"]
    acted = await api.post("/jobs/actions", json={"action": "archive", "jobs": [other["id"]]})
    assert acted.json()["results"][0]["job"]["archived"] is True
    assert await names(api) == ["one"]
    assert await names(api, archived="yes") == ["other"]
    assert await names(api, archived="all") == ["other", "one"]
    await api.post("/jobs/actions", json={"action": "unarchive", "jobs": [other["id"]]})
    assert await names(api) == ["other", "one"]
    change = {"action": "tag", "jobs": [one["id"], other["id"]], "tags": {"add": ["x"]}}
    await api.post("/jobs/actions", json=change)
    assert await names(api, tag="x") == ["other", "one"]


async def test_an_archived_job_that_still_runs_is_listed(running: Any) -> None:
    job = await running.submit("susan", "sleep", "600", name="runs")
    api = running.as_("susan")
    await api.patch(f"/jobs/{job['id']}", json={"archived": True})
    assert (await names(api), await names(api, archived="yes")) == (["runs"], ["runs"])
    await api.post(f"/jobs/{job['id']}/cancel")
    await running.until("susan", job["id"], lambda job: job["state"] == "cancelled")
    assert (await names(api), await names(api, archived="yes")) == ([], ["runs"])


async def test_only_owners_and_administrators_mark_a_job(running: Any) -> None:
    job = await running.submit("susan", "true")
    assert (await running.as_("jemma").patch(f"/jobs/{job['id']}", json={"note": "x"})).status_code == 404
    assert (await running.as_("admin").patch(f"/jobs/{job['id']}", json={"note": "x"})).status_code == 200
    refused = await running.as_("susan").patch(f"/jobs/{job['id']}", json={"note": "a\u202eb"})
    assert (refused.status_code, refused.json()["field"]) == (422, "note")


async def test_the_table_is_exported_as_it_is_filtered_without_formulas(running: Any) -> None:
    words = ("python3", "t.py", "--lr=0.1", "--cmd", "=1+1", "--token=abc")
    await running.submit("susan", *words, name="=HYPERLINK(1)")
    await running.submit("susan", "python3", "t.py", "--lr=0.5", name="other")
    await running.submit("jemma", "python3", "t.py", "--lr=0.1", name="hers")
    answer = await running.as_("susan").get("/jobs.csv", params={"where": "lr < 0.2"})
    assert answer.status_code == 200
    (row,) = csv.DictReader(io.StringIO(answer.text))
    assert (row["name"], row["argument.lr"], row["argument.cmd"]) == ("'=HYPERLINK(1)", "0.1", "'=1+1")
    assert row["argument.token"] == "hidden"
