"""Checkpoints of jobs, and forks: real trainings that continue from a checkpoint with other arguments or code."""

from __future__ import annotations

import asyncio
import base64
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from springtide.scheduler import wire
from springtide.scheduler.client.descriptions import resumes_from
from springtide.scheduler.executors import checkpoint_files
from springtide.scheduler.executors.base import CheckpointGoneError
from springtide.scheduler.store import pruning

TRAIN = """
import argparse, random
from springtide.training import current_job

options = argparse.ArgumentParser()
options.add_argument("--rate", type=float, default=0.1)
options.add_argument("--switch", type=int)
options.add_argument("--to", type=float)
options.add_argument("--steps", type=int, default=8)
given = options.parse_args()
job = current_job()
found = job.restore()
if found:
    step, weights, momentum, seed = found.state
else:
    step, weights, momentum, seed = 0, [0.5, -1.25, 3.0], [0.0] * 3, random.Random(7).getstate()
noise = random.Random()
noise.setstate(seed)
print("from", step)
while step < given.steps:
    rate = given.to if given.switch is not None and step >= given.switch else given.rate
    for place, weight in enumerate(weights):
        momentum[place] = 0.9 * momentum[place] + 2 * weight + noise.gauss(0, 0.3)
        weights[place] -= rate * momentum[place]
    step += 1
    job.report(step=step, of=given.steps, loss=sum(weight * weight for weight in weights))
    job.save((step, weights, momentum, noise.getstate()), step=step)
print("weights", *(weight.hex() for weight in weights))
"""
FILES = {"train.py": base64.b64encode(TRAIN.encode()).decode()}
COMMAND = ["python3", "{code}/train.py"]


def weights(log: str) -> str:
    return next(line for line in log.splitlines() if line.startswith("weights"))


def fresh(folder: Path, *options: str) -> str:
    """The last weights of a run outside of any pool."""
    place = folder / f"fresh{len(list(folder.iterdir()))}"
    place.mkdir()
    (place / "train.py").write_text(TRAIN)
    run = subprocess.run(
        [sys.executable, "train.py", *options], cwd=place, capture_output=True, text=True, check=True
    )
    return weights(run.stdout)


async def trained(running: Any, *options: str, **fields: Any) -> dict[str, Any]:
    body = {"files": FILES, "name": "train", "keep_last": 20, **fields}
    return await ended(running, (await running.submit("susan", *COMMAND, *options, **body))["id"])


async def ended(running: Any, job: str) -> dict[str, Any]:
    return await running.until("susan", job, lambda found: found["ended"] is not None)


async def fork(running: Any, job: str, user: str = "susan", **body: Any) -> Any:
    return await running.as_(user).post(f"/jobs/{job}/fork", json=body)


async def log_of(running: Any, job: str) -> str:
    return (await running.as_("susan").get(f"/jobs/{job}/log")).json()["text"]


async def checkpoints(running: Any, job: str, user: str = "susan") -> Any:
    return await running.as_(user).get(f"/jobs/{job}/checkpoints")


async def delete(running: Any, job: str, *names: str, user: str = "susan", **more: Any) -> Any:
    return await running.as_(user).post(f"/jobs/{job}/checkpoints/delete", json={"names": names, **more})


async def test_a_fork_at_a_step_with_another_rate_is_a_fresh_run_with_that_switch_to_the_bit(
    running: Any, tmp_path: Path
) -> None:
    parent = await trained(running, "--rate", "0.1")
    answer = await fork(running, parent["id"], step=3, arguments={"rate": "0.03"})
    assert answer.status_code == 201, answer.text
    child = await ended(running, answer.json()["id"])
    log = await log_of(running, child["id"])
    assert child["state"] == "succeeded", log
    assert log.startswith("from 3\n")
    assert weights(log) == fresh(tmp_path, "--rate", "0.1", "--switch", "3", "--to", "0.03")
    assert child["rerun"]["text"] == "Fork of “train” at step 3: rate 0.1 → 0.03."
    assert child["rerun"]["fork"]["step"] == 3
    assert child["attempts"][0]["resumed_from"] == 3
    assert child["argv"] == [*COMMAND, "--rate", "0.03"]
    assert weights(await log_of(running, parent["id"])) == fresh(tmp_path, "--rate", "0.1"), (
        "the parent is as it was"
    )


async def test_a_job_lists_its_checkpoints_with_step_size_time_and_metrics(running: Any) -> None:
    job = await trained(running, "--steps", "3")
    found = (await checkpoints(running, job["id"])).json()
    assert found["text"] == ""
    assert [(each["name"], each["step"]) for each in found["items"]] == [
        ("00000003", 3.0),
        ("00000002", 2.0),
        ("00000001", 1.0),
    ]
    newest = found["items"][0]
    assert newest["size"] > 100
    assert job["started"] <= newest["written"] <= job["ended"]
    assert newest["values"]["loss"] == job["progress"]["values"]["loss"]
    assert not newest["needed"], "the job has ended"


async def test_a_fork_begins_from_the_newest_checkpoint_and_with_more_to_do(running: Any, tmp_path: Path) -> None:
    parent = await trained(running, "--steps", "4")
    child = await ended(running, (await fork(running, parent["id"], arguments={"steps": "8"})).json()["id"])
    assert weights(await log_of(running, child["id"])) == fresh(tmp_path)


def removing(running: Any, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Let checkpoints go between the moment when a fork chooses one and that of its copy."""
    executor = running.pool.engine._parts.executor
    copy, left = executor.copy_checkpoint, iter(range(times))

    async def removed_first(spec: Any, name: str, *others: Any) -> Any:
        if next(left, None) is not None:
            await executor.delete_checkpoints(spec, {name})
        return await copy(spec, name, *others)

    monkeypatch.setattr(executor, "copy_checkpoint", removed_first)


async def test_a_fork_of_the_newest_takes_the_next_if_that_goes_meanwhile(
    running: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = await trained(running, "--steps", "4")
    removing(running, monkeypatch, 2)
    answer = await fork(running, parent["id"])
    assert answer.status_code == 201, answer.text
    assert answer.json()["rerun"]["fork"]["step"] == 2
    assert answer.json()["name"] == "train, from step 2"


async def test_a_named_checkpoint_that_goes_meanwhile_is_said_to_be_removed(
    running: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = await trained(running, "--steps", "4")
    removing(running, monkeypatch, 1)
    answer = await fork(running, parent["id"], step=3)
    assert answer.status_code == 404
    assert answer.json()["message"] == "The checkpoint “00000003” was removed before the fork had a copy of it."
    assert (await fork(running, parent["id"], step=4)).status_code == 201


async def test_a_fork_gives_up_on_a_job_that_removes_all_that_it_chooses(
    running: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = await trained(running, "--steps", "4")

    async def gone(*_: Any) -> None:
        raise CheckpointGoneError("It is gone.")

    monkeypatch.setattr(running.pool.engine._parts.executor, "copy_checkpoint", gone)
    answer = await fork(running, parent["id"])
    assert answer.status_code == 409
    assert "before a fork had a copy: it saves very often" in answer.json()["message"]
    assert "springtide pause" in answer.json()["hint"]


async def test_the_name_of_a_fork_says_its_checkpoint_once_unless_one_is_given(running: Any) -> None:
    parent = await trained(running, "--steps", "4")
    child = (await fork(running, parent["id"], step=2, arguments={"steps": "8"})).json()
    assert child["name"] == "train, from step 2"
    assert child["rerun"]["text"] == "Fork of “train” at step 2: steps 4 → 8."
    await ended(running, child["id"])
    grandchild = (await fork(running, child["id"], step=3)).json()
    assert grandchild["name"] == "train, from step 3"
    assert grandchild["rerun"]["text"] == "Fork of “train, from step 2” at step 3 with nothing changed."
    again = (await running.as_("susan").post(f"/jobs/{child['id']}/rerun", json={"from_start": True})).json()
    assert (again["name"], again["rerun"]["changes"]) == ("train", []), "it begins from the start"
    second, third = [(await fork(running, parent["id"], step=2)).json() for _ in range(2)]
    assert (second["name"], third["name"]) == ("train, from step 2 (2)", "train, from step 2 (3)")
    assert second["rerun"]["text"] == "Fork of “train” at step 2 with nothing changed."
    form = await running.as_("susan").get(f"/jobs/{parent['id']}/rerun", params={"checkpoint": "00000002"})
    assert {field["name"]: field["value"] for field in form.json()["fields"]}["name"] == "train, from step 2 (4)"
    await ended(running, second["id"])
    below = (await fork(running, second["id"], step=3)).json()
    assert below["name"] == "train, from step 3 (2)", "without the number of its parent, with one of its own"
    blank = (await fork(running, parent["id"], step=2, name=" ")).json()
    assert blank["name"] == "train, from step 2 (4)", "as without a name"
    assert (await rerun(running, parent["id"], name=" ")).json()["name"] == "train"
    for name in ("train", "slower"):
        named = (await fork(running, parent["id"], step=2, name=name)).json()
        assert named["name"] == name
    assert named["rerun"]["text"] == "Fork of “train” at step 2: name train → slower."


async def test_forks_of_one_moment_have_names_of_their_own(running: Any) -> None:
    parent = await trained(running, "--steps", "2")
    answers = await asyncio.gather(*(fork(running, parent["id"], step=1) for _ in range(2)))
    assert {answer.json()["name"] for answer in answers} == {"train, from step 1", "train, from step 1 (2)"}


async def rerun(running: Any, job: str, **body: Any) -> Any:
    return await running.as_("susan").post(f"/jobs/{job}/rerun", json=body)


async def form_of(running: Any, job: str, **query: Any) -> Any:
    return await running.as_("susan").get(f"/jobs/{job}/rerun", params=query)


async def test_a_fork_that_runs_again_continues_from_the_same_checkpoint_with_its_arguments(
    running: Any, tmp_path: Path
) -> None:
    parent = await trained(running, "--rate", "0.1")
    child = await ended(
        running, (await fork(running, parent["id"], step=3, arguments={"rate": "0.03"})).json()["id"]
    )
    form = (await form_of(running, child["id"])).json()
    name = next(field["value"] for field in form["fields"] if field["name"] == "name")
    assert (form["continues"], name) == ("step 3 of “train”", "train, from step 3 (2)")
    one, other = [await rerun(running, child["id"], key="once") for _ in range(2)]
    assert (one.status_code, other.status_code, other.json()["id"]) == (201, 200, one.json()["id"])
    again = await ended(running, one.json()["id"])
    assert again["name"] == "train, from step 3 (2)"
    assert again["rerun"] == child["rerun"], "it is the same fork of the same job"
    assert weights(await log_of(running, again["id"])) == weights(await log_of(running, child["id"]))
    slower = (await rerun(running, child["id"], arguments={"rate": "0.01", "--steps": "9"}, gpus=2)).json()
    assert slower["rerun"]["text"] == "Fork of “train” at step 3: rate 0.1 → 0.01, gpus 1 → 2, steps none → 9."
    back = (await rerun(running, slower["id"], arguments={"rate": "0.1"}, gpus=1)).json()
    assert back["rerun"]["text"] == "Fork of “train” at step 3: steps none → 9."
    assert back["name"] == "train, from step 3 (4)"
    named = (await fork(running, parent["id"], step=3, name="slower")).json()
    assert (await rerun(running, named["id"])).json()["name"] == "slower"


async def test_a_fork_runs_again_from_its_own_copy_and_is_refused_without_one_before_it_is_sent(
    running: Any,
) -> None:
    parent = await trained(running, "--steps", "4")
    child = await ended(
        running, (await fork(running, parent["id"], step=2, arguments={"steps": "5"})).json()["id"]
    )
    await delete(running, parent["id"], "00000002")
    again = await ended(running, (await rerun(running, child["id"])).json()["id"])
    assert ((await log_of(running, again["id"])).splitlines()[0], again["rerun"]) == ("from 2", child["rerun"])
    await delete(running, child["id"], "00000002")
    for answer in (await rerun(running, child["id"]), await form_of(running, child["id"])):
        assert (answer.status_code, answer.json()["code"]) == (409, "fork_gone")
        assert answer.json()["message"] == (
            "This fork began from step 2 of “train”, which is not there any more, and neither is its copy."
        )
        assert f"springtide rerun --from-start {child['id']}" in answer.json()["hint"]
    form = (await form_of(running, child["id"], from_start=True)).json()
    assert form["continues"] == ""
    fresh_run = await ended(running, (await rerun(running, child["id"], from_start=True)).json()["id"])
    assert (await log_of(running, fresh_run["id"])).startswith("from 0")
    assert fresh_run["rerun"]["text"] == "Run again of “train, from step 2” with nothing changed."


async def test_the_name_of_a_fork_has_room_for_its_checkpoint(running: Any) -> None:
    parent = await trained(running, "--steps", "2", name="n" * wire.MAX_NAME)
    child = await fork(running, parent["id"], step=2)
    assert child.json()["name"] == f"{'n' * (wire.MAX_NAME - len(', from step 2'))}, from step 2"


async def test_a_fork_is_isolated_from_its_parent_and_its_checkpoints(running: Any, tmp_path: Path) -> None:
    parent = await trained(running, "--steps", "5")
    blockers = [(await running.submit("susan", gpus=2))["id"] for _ in range(3)]
    child = (await fork(running, parent["id"], step=2, arguments={"steps": "8"})).json()
    names = [each["name"] for each in (await checkpoints(running, parent["id"])).json()["items"]]
    answer = await delete(running, parent["id"], *names)
    assert answer.status_code == 200, answer.text
    assert answer.json()["items"] == []
    gone = await fork(running, parent["id"])
    assert (gone.status_code, gone.json()["code"]) == (409, "no_checkpoints")
    assert "were deleted" in gone.json()["message"]
    for blocker in blockers:
        await running.as_("susan").post(f"/jobs/{blocker}/cancel")
    await running.pool.engine._parts.executor.remove(parent["id"])
    await ended(running, child["id"])
    assert weights(await log_of(running, child["id"])) == fresh(tmp_path)


async def test_where_a_fork_came_from_is_known_after_its_parent_was_deleted(running: Any) -> None:
    parent = await trained(running, "--steps", "2")
    child = await ended(running, (await fork(running, parent["id"], step=1)).json()["id"])
    parts = running.pool.engine._parts
    await parts.executor.remove(parent["id"])
    await parts.store.write(parts.store.store.write, pruning.drop_jobs, [parent["id"]])
    parts.jobs.forget_ended()
    assert (await running.as_("susan").get(f"/jobs/{parent['id']}")).status_code == 404
    found = (await running.as_("susan").get(f"/jobs/{child['id']}")).json()
    assert found["rerun"] == child["rerun"]
    assert found["rerun"]["fork"]["checkpoint"] == "00000001"


async def test_a_fork_of_a_fork_knows_its_parent(running: Any, tmp_path: Path) -> None:
    first = await trained(running, "--steps", "4")
    second = await ended(
        running, (await fork(running, first["id"], step=2, arguments={"--rate": "0.05"})).json()["id"]
    )
    forked = await fork(running, second["id"], step=3, arguments={"steps": "4"})
    third = await ended(running, forked.json()["id"])
    assert third["rerun"]["job"] == second["id"]
    assert third["argv"] == [*COMMAND, "--steps", "4", "--rate", "0.05"]


@pytest.mark.parametrize(("step", "near"), [(45, "is 3"), (2.5, "are 2 and 3"), (0, "is 1")])
async def test_an_unknown_step_names_the_nearest_ones(running: Any, step: float, near: str) -> None:
    job = await trained(running, "--steps", "3")
    answer = await fork(running, job["id"], step=step)
    assert (answer.status_code, answer.json()["field"]) == (404, "step")
    assert answer.json()["hint"] == f"The nearest {near}."


async def test_a_job_without_checkpoints_says_so(running: Any) -> None:
    job = await ended(running, (await running.submit("susan", "true"))["id"])
    found = (await checkpoints(running, job["id"])).json()
    text = "No checkpoints: the job saved none, or they were deleted."
    assert found == {"items": [], "text": text}
    answer = await fork(running, job["id"])
    assert (answer.status_code, answer.json()["message"]) == (409, found["text"])


async def test_only_the_owner_forks_and_deletes_and_who_sees_the_job_lists(running: Any) -> None:
    job = await trained(running, "--steps", "2")
    assert (await checkpoints(running, job["id"], "joe")).status_code == 200
    assert (await checkpoints(running, job["id"], "jemma")).status_code == 404
    for user in ("joe", "admin"):
        assert (await fork(running, job["id"], user)).status_code == 403
        assert (await delete(running, job["id"], "00000001", user=user)).status_code == 403
    assert (await fork(running, job["id"], project="speech")).status_code == 403
    assert (await fork(running, job["id"], gpus=99)).json()["field"] == "gpus"
    assert len((await checkpoints(running, job["id"])).json()["items"]) == 2


async def test_a_refused_fork_leaves_no_copy_and_one_key_is_one_fork(running: Any) -> None:
    job = await trained(running, "--steps", "2")
    jobs = running.pool.engine._parts.executor._layout.jobs
    before = {path.name for path in jobs.iterdir()}
    assert (await fork(running, job["id"], gpus=99)).status_code == 422
    one, other = [await fork(running, job["id"], key="once") for _ in range(2)]
    assert (one.status_code, other.status_code) == (201, 200)
    assert one.json()["id"] == other.json()["id"]
    assert {path.name for path in jobs.iterdir()} - before == {one.json()["id"], ".unrecorded"}
    assert list((jobs / ".unrecorded").iterdir()) == []


async def test_the_checkpoint_of_a_paused_job_is_deleted_with_a_clear_word_only(running: Any) -> None:
    text = TRAIN.replace(
        "while step <", "import time\nwhile step == 0 or not job.should_pause() and step <"
    ).replace('print("weights"', 'time.sleep(0.01)\nprint("weights"')
    text = text.replace("    step += 1\n", "    step += 1\n    time.sleep(0.01)\n") + "\njob.exit_for_pause()\n"
    files = {"train.py": base64.b64encode(text.encode()).decode()}
    job = await running.submit("susan", *COMMAND, "--steps", "1000000", files=files)
    await running.until("susan", job["id"], lambda found: (found["saved_step"] or 0) > 3)
    await running.as_("susan").post(f"/jobs/{job['id']}/pause")
    await running.until("susan", job["id"], lambda found: found["state"] == "paused")
    items = (await checkpoints(running, job["id"])).json()["items"]
    assert [each["needed"] for each in items] == [True, False, False]
    refused = await delete(running, job["id"], items[0]["name"])
    assert (refused.status_code, refused.json()["code"]) == (409, "needed")
    assert items[1]["name"] in refused.json()["message"]
    assert (await delete(running, job["id"], items[2]["name"])).status_code == 200
    left = (await delete(running, job["id"], items[0]["name"], force=True)).json()["items"]
    assert [each["name"] for each in left] == [items[1]["name"]]
    found = (await running.as_("susan").get(f"/jobs/{job['id']}")).json()
    assert found["saved_step"] == items[1]["step"]
    await delete(running, job["id"], items[1]["name"], force=True)
    found = (await running.as_("susan").get(f"/jobs/{job['id']}")).json()
    assert (found["saved"], found["checkpoints_deleted"]) == (None, True)
    gone = (await checkpoints(running, job["id"])).json()["text"]
    assert gone.startswith("The checkpoints of the job are not there any more: they were deleted")
    assert (await fork(running, job["id"])).json()["message"] == gone
    assert (await delete(running, job["id"], "00000099")).json()["code"] == "no_checkpoints"


SAVES_ONCE = """
import os, sys, time
from pathlib import Path
from springtide.training import current_job

job, go, step = current_job(), Path(sys.argv[1]), 0
while not job.should_pause():
    if go.exists():
        go.unlink()
        job.save(step, step=step)
    step += 1
    job.report(step=step)
    time.sleep(0.05)
job.exit_for_pause()
"""


async def test_a_running_job_whose_checkpoints_were_deleted_is_not_said_to_have_saved_none(
    running: Any, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    files = {"train.py": base64.b64encode(SAVES_ONCE.encode()).decode()}
    job = await running.submit("susan", *COMMAND, str(go), files=files)
    await running.until("susan", job["id"], lambda found: found["progress"]["step"])
    assert not (await running.as_("susan").get(f"/jobs/{job['id']}")).json()["checkpoints_deleted"]
    go.touch()
    saved = await running.until("susan", job["id"], lambda found: found["saved"])
    left = await delete(running, job["id"], "00000001", force=True)
    assert left.json()["text"].startswith("The checkpoints of the job are not there any more")
    step = saved["progress"]["step"] + 5
    found = await running.until("susan", job["id"], lambda found: found["progress"]["step"] > step)
    assert (found["saved"], found["saved_step"], found["checkpoints_deleted"]) == (None, None, True)
    assert "It has saved no checkpoint" not in found["reason"]["text"]
    said = resumes_from(msgspec.convert(found, wire.Job), 0.0)
    assert said == "nothing: its checkpoints were deleted, or are damaged"
    go.touch()
    found = await running.until("susan", job["id"], lambda found: found["saved"])
    assert (found["saved_step"] > step, found["checkpoints_deleted"]) == (True, False)


FOREIGN = """
import os, sys, time
from pathlib import Path
from springtide.training import current_job

job, kept = current_job(), Path(os.environ["SPRINGTIDE_OUTPUT_DIR"]) / "step-7.ckpt"
while not job.should_pause():
    if job.attempt == 1 and not kept.exists():
        kept.write_bytes(b"weights" * 1000)
    job.report(step=7)
    time.sleep(0.05)
job.exit_for_pause()
"""


@pytest.mark.parametrize("program", [SAVES_ONCE, FOREIGN], ids=["its own", "recognised"])
async def test_a_checkpoint_that_was_deleted_during_a_pause_is_not_said_to_be_resumed_from(
    running: Any, tmp_path: Path, program: str
) -> None:
    go = tmp_path / "go"
    go.touch()
    files = {"train.py": base64.b64encode(program.encode()).decode()}
    job = await running.submit("susan", *COMMAND, str(go), files=files)
    await running.until("susan", job["id"], lambda found: found["progress"]["step"])
    await running.as_("susan").post(f"/jobs/{job['id']}/pause")
    paused = await running.until("susan", job["id"], lambda found: found["state"] == "paused")
    assert paused["saved"]
    place = running.pool.engine._parts.executor._layout.jobs / job["id"]
    for path in [*(place / "checkpoints").iterdir(), *place.rglob("*.ckpt")]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    await running.as_("susan").post(f"/jobs/{job['id']}/resume")
    found = await running.until(
        "susan", job["id"], lambda found: found["attempt"] == 2 and found["checkpoints_deleted"]
    )
    _, second = found["attempts"]
    assert (second["had_checkpoint"], second["resumed_from"]) == (False, None)
    assert any("from the beginning" in each["text"] for each in found["timeline"])
    view = msgspec.convert(found, wire.Job)
    assert resumes_from(view, 0.0) == "nothing: its checkpoints were deleted, or are damaged"


async def test_another_command_continues_among_the_files_of_the_first(running: Any, tmp_path: Path) -> None:
    parent = await trained(running, "--steps", "4")
    program = {"argv": [*COMMAND, "--rate=0.2"]}
    child = await ended(running, (await fork(running, parent["id"], step=4, program=program)).json()["id"])
    assert weights(await log_of(running, child["id"])) == fresh(tmp_path, "--switch", "4", "--to", "0.2")
    both = await fork(running, parent["id"], program=program, arguments={"rate": "1"})
    assert (both.status_code, both.json()["field"]) == (422, "arguments")


async def test_other_code_continues_from_the_checkpoint(running: Any) -> None:
    parent = await trained(running, "--steps", "4")
    text = "from springtide.training import current_job\nprint('has', current_job().restore().step)"
    program = {
        "argv": ["python3", "{code}/other.py"],
        "files": {"other.py": base64.b64encode(text.encode()).decode()},
    }
    child = await ended(running, (await fork(running, parent["id"], step=2, program=program)).json()["id"])
    assert (await log_of(running, child["id"])).strip() == "has 2"


async def test_the_rules_of_a_job_keep_its_best_and_every_so_many_checkpoints(running: Any) -> None:
    job = await trained(running, keep_last=1, keep_every=3, keep_best="loss:max")
    found = (await checkpoints(running, job["id"])).json()["items"]
    losses = {each["step"]: each["values"]["loss"] for each in found}
    assert {3.0, 6.0, 8.0} <= set(losses)
    assert len(losses) <= 4
    assert max(losses, key=losses.get) not in {3.0, 6.0}
    wrong = await running.as_("susan").post("/jobs", json={"argv": ["true"], "keep_best": "loss:least"})
    assert (wrong.status_code, wrong.json()["field"]) == (422, "keep_best")


RECOGNISED = """
import os, sys, time
step = 0
if len(sys.argv) > 1:
    step = int(open(sys.argv[-1]).read())
print("from", step, flush=True)
os.makedirs("run", exist_ok=True)
for step in range(step + 1, 4 + 4 * (step > 0)):
    open(f"run/ckpt_step_{step}.new", "w").write(str(step))
    os.rename(f"run/ckpt_step_{step}.new", f"run/ckpt_step_{step}.pt")
"""


async def test_a_recognised_checkpoint_is_in_the_place_where_the_fork_looks_for_it(running: Any) -> None:
    files = {"train.py": base64.b64encode(RECOGNISED.encode()).decode()}
    body = {"files": files, "resume": "--from {checkpoint}"}
    parent = await ended(running, (await running.submit("susan", *COMMAND, **body))["id"])
    found = (await checkpoints(running, parent["id"])).json()["items"]
    assert {(each["name"], each["step"], each["by"]) for each in found} == {
        (f"run/ckpt_step_{step}.pt", float(step), "PyTorch") for step in (1, 2, 3)
    }
    answer = await fork(running, parent["id"], step=2)
    child = await ended(running, answer.json()["id"])
    assert (await log_of(running, child["id"])).strip() == "from 2"
    again = await ended(running, (await rerun(running, child["id"])).json()["id"])
    assert ((await log_of(running, again["id"])).strip(), again["rerun"]) == ("from 2", child["rerun"])
    assert child["state"] == "succeeded"
    assert child["progress"]["step"] is None, "the program reports no step"
    names = [each["name"] for each in (await checkpoints(running, child["id"])).json()["items"]]
    assert names[0] == "run/ckpt_step_7.pt"


async def test_the_name_of_a_checkpoint_is_looked_up_and_never_a_path(running: Any) -> None:
    job = await trained(running, "--steps", "1")
    for name in ("../../secret", "/etc/passwd", "00000001/manifest.json", "."):
        answer = await fork(running, job["id"], checkpoint=name)
        assert (answer.status_code, answer.json()["code"]) == (404, "no_checkpoint")
        assert (await delete(running, job["id"], name)).status_code == 404
    assert "It has: 00000001" in answer.json()["hint"]


async def test_a_sweep_has_no_checkpoint_to_fork(running: Any) -> None:
    trials = {"number": 1, "parameters": [{"x": 1}], "metric": "loss"}
    sweep = await running.submit("susan", "true", trials=trials)
    await ended(running, sweep["id"])
    for job in (sweep["id"], f"{sweep['id']}t0"):
        assert (await fork(running, job)).status_code == 409


async def test_one_person_reads_files_of_jobs_a_few_times_at_once(running: Any) -> None:
    job = await trained(running, "--steps", "1")
    slots = running.pool.checkpoints
    with ExitStack() as stack:
        for _ in range(slots.most):
            stack.enter_context(slots.hold("susan", RuntimeError))
        for answer in (await checkpoints(running, job["id"]), await fork(running, job["id"])):
            assert (answer.status_code, answer.json()["code"]) == (429, "too_many")
            assert "Retry-After" in answer.headers
        assert (await checkpoints(running, job["id"], "joe")).status_code == 200
    assert (await fork(running, job["id"])).status_code == 201


async def test_a_copy_that_would_fill_the_disk_is_refused_before_it_begins(
    running: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await trained(running, "--steps", "1")
    monkeypatch.setattr(checkpoint_files, "MOST_OF_FREE", 0.0)
    answer = await fork(running, job["id"])
    assert answer.status_code == 409
    assert "a copy does not fit" in answer.json()["message"]


async def test_a_fork_of_a_damaged_checkpoint_fails_and_does_not_begin_from_the_start(
    running: Any, tmp_path: Path
) -> None:
    first = await trained(running, "--steps", "3")
    (saved,) = tmp_path.glob(f"*/jobs/{first['id']}/checkpoints/00000003/state.pkl")
    saved.write_bytes(b"\0" * saved.stat().st_size)
    sent = await fork(running, first["id"], step=3)
    forked = await ended(running, sent.json()["id"])
    assert forked["state"] == "failed"
    assert "Checkpoint 00000003 is damaged" in str(forked)
