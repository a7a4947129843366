"""Project trees over HTTP: sent once, as bytes, and asked for by their sender alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from springtide.scheduler.project_tree import TreeFile, digest_of, pack

OCTETS = {"Content-Type": "application/octet-stream"}


async def test_a_tree_is_sent_once_and_its_job_runs_in_it(running: Any, tmp_path: Path) -> None:
    packed = pack({"a.py": TreeFile(b"print(1)")}, {})
    at = f"/trees/{digest_of(packed)}"
    susan = running.as_("susan")
    missing = await susan.get(at)
    assert (missing.status_code, missing.json()["code"]) == (404, "unknown_tree")
    sent = await susan.put(at, content=packed, headers=OCTETS)
    assert (sent.status_code, sent.json()["bytes"]) == (200, len(packed))
    assert (await susan.get(at)).status_code == 200
    assert (await running.as_("joe").get(at)).status_code == 404
    tree = {
        "root": str(tmp_path),
        "digest": digest_of(packed),
        "file_count": 1,
        "file_bytes": 8,
        "files": ["a.py"],
    }
    body = {"argv": ["python", "a.py"], "tree": tree, "project": "vision"}
    assert (await running.as_("joe").post("/jobs", json=body)).status_code in {403, 404}
    accepted = await susan.post("/jobs", json=body)
    assert accepted.status_code == 201, accepted.text
    assert accepted.json()["environment"]["tree"]["files"] == ["a.py"]


async def test_what_is_no_tree_is_refused(running: Any) -> None:
    susan, packed = running.as_("susan"), pack({}, {})
    at = f"/trees/{digest_of(packed)}"
    assert (await susan.put(at, content=packed, headers={"Content-Type": "application/json"})).status_code == 415
    assert (await susan.put(at, content=packed + b"x", headers=OCTETS)).json()["code"] == "digest"
    assert (await susan.put("/trees/abc", content=packed, headers=OCTETS)).status_code == 422
    assert (await susan.put(f"/trees/{digest_of(b'x')}", content=b"x", headers=OCTETS)).json()["code"] == "tree"


async def test_a_tree_may_be_larger_than_other_requests(running: Any) -> None:
    packed = pack({"a.py": TreeFile(bytes(running.pool.max_body + 1))}, {})
    sent = await running.as_("susan").put(f"/trees/{digest_of(packed)}", content=packed, headers=OCTETS)
    assert sent.status_code == 200, sent.text


async def test_a_comparison_names_the_files_of_projects_that_differ(running: Any, tmp_path: Path) -> None:
    susan, sent = running.as_("susan"), []
    for rate in (b"0.9", b"0.8"):
        packed = pack({"train.py": TreeFile(rate), "lib.py": TreeFile(b"same")}, {})
        tree = {"root": str(tmp_path), "digest": digest_of(packed)}
        await susan.put(f"/trees/{tree['digest']}", content=packed, headers=OCTETS)
        sent.append((await running.submit("susan", "sleep", "1", cwd=str(tmp_path), tree=tree))["id"])
    found = (await susan.get(f"/comparison?jobs={','.join(sent)}")).json()["differences"]
    assert found == [{"kind": "file", "name": "train.py", "values": ["A", "B"]}]
