"""What keeps GPUs out of the pool, by the API: who sees it, and who may end it or free its GPUs."""

from __future__ import annotations

import json
from typing import Any

GONE = "GPU-fell-off-the-bus"
HOLDER = "susan/lab"


async def keep_out(running: Any) -> None:
    """Let Susan's notebook run on a GPU that the pool does not have."""
    body = {"user": "susan", "server": "lab", "gpus": 1, "runs_on": [GONE]}
    (await running.as_("springtide").post("/workspaces", json=body)).raise_for_status()


async def holders(running: Any, name: str) -> list[str]:
    found = (await running.as_(name).get("/pool")).json()["unmatched"]
    return [each["holder"] for each in found]


async def test_only_who_sees_every_job_sees_what_keeps_gpus_out_of_the_pool(running: Any) -> None:
    await keep_out(running)
    assert await holders(running, "admin") == [HOLDER]
    assert await holders(running, "springtide") == [HOLDER]
    for other in ("susan", "joe", "bot"):
        assert await holders(running, other) == []
    assert "springtide_unmatched_gpus 1.0" in (await running.as_("admin").get("/metrics")).text
    for name, seen in (("joe", []), ("springtide", [HOLDER]), ("admin", [HOLDER]), ("susan", [])):
        async with running.as_(name).stream("GET", "/events") as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data: ") and "unmatched" in line:
                    assert [each["holder"] for each in json.loads(line[6:])["unmatched"]] == seen
                    break


async def test_a_notebook_that_the_hub_has_is_ended_before_its_gpus_are_free(running: Any) -> None:
    await keep_out(running)
    running.people.notebooks["susan"] = {"lab"}
    admin = running.as_("admin")
    refused = await admin.post("/gpus/free", json={"holder": HOLDER})
    assert (refused.status_code, refused.json()["code"]) == (409, "still_runs")
    assert (await running.as_("susan").post("/gpus/free", json={"holder": HOLDER})).status_code == 403
    assert (await admin.post("/gpus/free", json={"holder": HOLDER, "end": True})).status_code == 204
    assert (await admin.post("/gpus/free", json={"holder": HOLDER})).status_code == 204
    assert await holders(running, "admin") == []
    trail = (await admin.get("/audit")).json()["items"]
    assert [(each["who"], each["what"], each["subject"]) for each in trail[:2]] == [
        ("admin", "gpu.free", HOLDER),
        ("admin", "gpu.end_holder", HOLDER),
    ]
