"""Reruns of jobs: as they were submitted, except for requested changes, and by their own user alone."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from springtide.hub_extension.api.limits import Buckets
from springtide.scheduler.wire.form_fields import FIXED_ARGUMENT

SCRIPT = {"main.py": base64.b64encode(b"import os, sys; print(os.environ['SECRET'], sys.argv[1])").decode()}
PYTHON = ["python3", "{code}/main.py", "0.1"]


async def first_job(running: Any, **fields: Any) -> dict[str, Any]:
    body = {"files": SCRIPT, "env": {"SECRET": "hunter2"}, "name": "train", "time_limit": 3600, **fields}
    return await running.submit("susan", *PYTHON, **body)


async def again(running: Any, job: str, user: str = "susan", **body: Any) -> Any:
    return await running.as_(user).post(f"/jobs/{job}/rerun", json=body)


async def ended(running: Any, job: str) -> dict[str, Any]:
    return await running.until("susan", job, lambda found: found["ended"] is not None)


async def log_of(running: Any, job: str) -> str:
    return (await running.as_("susan").get(f"/jobs/{job}/log")).json()["text"]


async def test_a_run_again_has_what_the_first_run_had_and_says_what_differs(
    running: Any,
) -> None:
    job = await first_job(running, workers=2)
    await ended(running, job["id"])
    answer = await again(running, job["id"], gpus=2, workers=1, time_limit=None, env={"MORE": "1"})
    assert answer.status_code == 201, answer.text
    found = answer.json()
    options = found["options"]
    assert (found["name"], options["gpus"], options["workers"], options["min_workers"]) == ("train", 2, 1, 1)
    assert options["time_limit"] is None
    text = "Run again of “train”: gpus 1 → 2, workers 2 → 1, time_limit 1h → none, env with another MORE."
    assert found["rerun"]["text"] == text
    assert (found["rerun"]["job"], found["rerun"]["changes"][0]) == (
        job["id"],
        {"name": "gpus", "before": "1", "after": "2"},
    )
    assert "hunter2" not in answer.text
    assert (await ended(running, found["id"]))["state"] == "succeeded"
    assert (await log_of(running, found["id"])).split() == ["hunter2", "0.1"]


async def test_nothing_need_differ_and_one_key_is_one_run(running: Any) -> None:
    job = await first_job(running)
    one, other = [await again(running, job["id"], key="once") for _ in range(2)]
    assert (one.status_code, other.status_code) == (201, 200)
    assert one.json()["id"] == other.json()["id"] != job["id"]
    assert one.json()["rerun"]["text"] == "Run again of “train” with nothing changed."


async def test_texts_of_a_form_are_read_and_an_empty_one_is_the_default(running: Any) -> None:
    job = await first_job(running, gpus=2)
    typed = {"gpus": "1", "time_limit": "", "priority": "high", "preemptible": "no", "gpu_types": ""}
    found = (await again(running, job["id"], typed=typed)).json()["options"]
    assert (found["gpus"], found["time_limit"], found["priority"], found["preemptible"]) == (1, None, 75, False)
    wrong = await again(running, job["id"], typed={"gpus": "many"})
    assert (wrong.status_code, wrong.json()["field"]) == (422, "gpus")
    assert (await again(running, job["id"], typed={"argv": "rm -rf ~"})).status_code == 422


async def test_the_form_has_the_options_of_the_first_run_and_no_value_of_a_variable(running: Any) -> None:
    job = await first_job(running, gpus=2, rotate=False)
    answer = await running.as_("susan").get(f"/jobs/{job['id']}/rerun")
    fields = {field["name"]: field["value"] for field in answer.json()["fields"]}
    assert {
        name: fields[name] for name in ("name", "gpus", "rotate", "time_limit", "project", "env", "grace")
    } == {
        "name": "train",
        "gpus": "2",
        "rotate": "no",
        "time_limit": "1h",
        "project": "vision",
        "env": "",
        "grace": "",
    }
    assert "hunter2" not in answer.text


@pytest.mark.parametrize("user", ["joe", "admin"])
async def test_nobody_gets_the_variables_and_files_of_another_person(running: Any, user: str) -> None:
    job = await first_job(running)
    refused = await again(running, job["id"], user)
    assert refused.status_code == 403
    assert "only susan may run it again" in refused.json()["message"]
    assert (await running.as_(user).get(f"/jobs/{job['id']}/rerun")).status_code == 403
    assert (await again(running, job["id"], "jemma")).status_code == 404


async def test_a_run_again_is_held_to_what_a_submission_is(running: Any) -> None:
    job = await first_job(running)
    assert (await again(running, job["id"], project="speech")).status_code == 403
    assert (await again(running, job["id"], gpus=99)).json()["field"] == "gpus"
    assert (await again(running, job["id"], user_name="joe")).json()["code"] == "unknown_field"
    running.people.leave("susan", "vision")
    gone = await again(running, job["id"])
    assert (gone.status_code, "no longer in project “vision”" in gone.json()["message"]) == (403, True)


async def test_the_files_sent_again_count_as_sent(running: Any) -> None:
    job = await first_job(running)

    object.__setattr__(running.pool, "uploads", Buckets(0.001, 1, lambda: 0.0))
    await again(running, job["id"])
    assert (await again(running, job["id"])).status_code == 429


async def test_a_job_whose_files_are_gone_says_so_and_the_way_out(running: Any) -> None:
    job = await first_job(running)
    await ended(running, job["id"])
    running.pool.engine._parts.store.store.drop_bundles(float("inf"), 0, float("inf"))
    answer = await again(running, job["id"])
    assert (answer.status_code, answer.json()["code"]) == (410, "files_gone")
    assert "kept for 7 d" in answer.json()["message"]
    assert "Submit it once more" in answer.json()["hint"]
    plain = await running.submit("susan", "true")
    await ended(running, plain["id"])
    assert (await again(running, plain["id"])).status_code == 201, "a command without files needs none"


async def test_a_sweep_is_run_again_whole_and_its_trials_are_not(running: Any) -> None:
    trials = {"number": 2, "parameters": [{"x": 1}, {"x": 2}], "metric": "loss"}
    sweep = await first_job(running, trials=trials)
    await ended(running, sweep["id"])
    trial = await again(running, f"{sweep['id']}t0")
    assert (trial.status_code, trial.json()["code"]) == (409, "trial")
    found = (await again(running, sweep["id"], priority="high")).json()
    assert (found["trials"]["number"], found["trials"]["metric"], found["options"]["priority"]) == (2, "loss", 75)
    rows = (await running.as_("susan").get(f"/jobs/{found['id']}/trials")).json()["items"]
    assert [row["parameters"] for row in rows] == [{"x": 1}, {"x": 2}]


async def test_a_command_runs_again_with_other_arguments(running: Any) -> None:
    first = await running.submit("susan", "python3", "train.py", "--lr", "0.1", "--amp", "--token=abc")
    assert first["arguments"] == {
        "lr": {"value": 0.1},
        "amp": {"value": True},
        "token": {"value": None, "hidden": True},
    }
    api = running.as_("susan")
    form = (await api.get(f"/jobs/{first['id']}/rerun")).json()
    assert [(each["name"], each["value"]) for each in form["arguments"]] == [
        ("lr", "0.1"),
        ("amp", "true"),
        ("token", ""),
    ]
    again = await api.post(f"/jobs/{first['id']}/rerun", json={"arguments": {"lr": "0.01", "amp": "false"}})
    assert again.status_code == 201, again.text
    assert again.json()["argv"] == ["python3", "train.py", "--lr", "0.01", "--token=…"]
    assert again.json()["rerun"]["text"] == "Run again of “train.py”: lr 0.1 → 0.01, amp true → none."
    other = await api.post(f"/jobs/{first['id']}/rerun", json={"arguments": {"token": "def"}})
    assert other.json()["rerun"]["text"] == "Run again of “train.py”: token typed anew."


async def test_an_argument_that_a_job_does_not_have_is_refused_by_its_name(running: Any) -> None:
    first = await running.submit("susan", "python3", "train.py", "--lr", "0.1")
    answer = await running.as_("susan").post(f"/jobs/{first['id']}/rerun", json={"arguments": {"rate": "1"}})
    assert (answer.status_code, answer.json()["field"]) == (422, "arguments.rate")
    assert answer.json()["hint"].startswith("Known are: lr.")


async def test_arguments_of_a_function_are_stored_as_they_were_sent_and_cut(running: Any) -> None:
    sent = {"lr": {"value": 0.1}, "api_key": {"value": "abc"}, "text": {"value": "x" * 9_999}}
    job = await running.submit("susan", "python3", "p.pkl", kind="function", arguments=sent)
    assert job["arguments"]["lr"] == {"value": 0.1}
    assert job["arguments"]["api_key"] == {"value": None, "hidden": True}
    assert len(job["arguments"]["text"]["value"]) == 200


async def test_the_form_shows_arguments_that_it_cannot_change(running: Any) -> None:
    sent = {
        "lr": {"value": 0.1},
        "rows": {"value": "<list>", "type": "list"},
        "text": {"value": "x" * 9_999},
        "net.depth": {"value": 3},
    }
    job = await running.submit("susan", "python3", "p.pkl", kind="function", arguments=sent)
    form = (await running.as_("susan").get(f"/jobs/{job['id']}/rerun")).json()
    fields = {field["name"]: field for field in form["arguments"]}
    assert {name: field["read_only"] for name, field in fields.items()} == {
        "lr": False,
        "rows": True,
        "text": True,
        "net.depth": True,
    }
    assert [fields[name]["value"] for name in ("rows", "text", "net.depth")] == ["<list>", "x" * 199 + "…", "3"]
    assert {field["help"] for field in fields.values() if field["read_only"]} == {FIXED_ARGUMENT}
    again = await running.as_("susan").post(f"/jobs/{job['id']}/rerun", json={"arguments": {"lr": "0.2"}})
    assert again.status_code == 201, again.text
    assert again.json()["arguments"] == {**job["arguments"], "lr": {"value": 0.2}}


async def test_no_report_of_a_job_stops_the_pool(running: Any) -> None:
    code = (
        "from springtide.training import current_job\n"
        "current_job().report(step=1, loss=1.0, **{chr(0xD800): 2.0})\nprint('reported')"
    )
    job = await running.submit("susan", "python3", "-c", code)
    found = await ended(running, job["id"])
    assert (found["state"], found["progress"]["values"]) == ("succeeded", {"loss": 1.0})
    other = await running.submit("susan", "python3", "-c", "pass")
    assert (await ended(running, other["id"]))["state"] == "succeeded"
