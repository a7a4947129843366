"""Datasets through the API: who sees which, and jobs and workspaces that use them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from springtide.scheduler.datasets import Dataset

pytestmark = pytest.mark.http

READS = (
    "from springtide.training import current_job; print((current_job().dataset('digits') / 'a.csv').read_text())"
)


async def test_everyone_sees_and_uses_the_datasets_of_her_projects(start: Any, tmp_path: Path) -> None:
    place = tmp_path / "digits"
    place.mkdir()
    (place / "a.csv").write_text("1,2,3\n")
    digits = Dataset("digits", path=str(place), projects=("vision",))
    pool = await start(datasets=(digits, Dataset("words", path=str(tmp_path))))

    async def listed(who: str) -> list[tuple[str, list[str]]]:
        items = (await pool.as_(who).get("/datasets")).json()["items"]
        return [(each["name"], each["projects"]) for each in items]

    assert await listed("susan") == [("digits", ["vision"]), ("words", ["vision"])]
    assert await listed("jemma") == [("words", ["speech"])]
    assert await listed("admin") == [("digits", ["vision"]), ("words", ["speech", "vision"])]
    assert (await pool.as_("susan").get("/me")).json()["datasets"] == ["digits", "words"]

    job = await pool.submit("susan", sys.executable, "-c", READS, datasets=["digits"])
    assert job["options"]["datasets"] == ["digits"]
    await pool.until("susan", job["id"], lambda found: found["state"] == "succeeded")
    log = (await pool.as_("susan").get(f"/jobs/{job['id']}/log")).json()
    assert log["text"].strip() == "1,2,3"

    await _is_refused(pool)
    reserved = {"user": "susan", "server": "", "gpus": 0}
    workspace = (await pool.as_("springtide").post("/workspaces", json=reserved)).json()
    assert {each["name"]: each["path"] for each in workspace["datasets"]} == {
        "digits": str(place),
        "words": str(tmp_path),
    }


async def _is_refused(pool: Any) -> None:
    body = {"argv": ["true"], "datasets": ["digits"]}
    answer = await pool.as_("jemma").post("/jobs", json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, "datasets")
    assert answer.json()["message"] == "Project “speech” may not use the dataset “digits”."
    assert answer.json()["hint"].startswith("Datasets of project “speech”: words.")
