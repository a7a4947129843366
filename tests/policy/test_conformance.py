from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "conformance"
OWN = Path(__file__).parent / "cases"
CASES = [
    pytest.param(case, id=case["case"])
    for folder in (OWN, SHARED)
    if folder.is_dir()
    for file in sorted(folder.glob("*.json"))
    for case in json.loads(file.read_text())
]


CONTRADICTORY = {
    "pool-087": "demands that a project of weight 0 and higher priority keeps what it borrowed from one that"
    " is entitled to it: the reclaim rule, and a pause of a job that is within what its project is entitled to",
}
"""Cases that contradict a rule, with the rule."""


@pytest.mark.parametrize("case", CASES)
def test_the_pool_comes_to_rest_as_the_case_says(case, settle, request):
    if why := CONTRADICTORY.get(case["case"]):
        request.applymarker(pytest.mark.xfail(strict=True, reason=why))
    settled = settle(case["scenario"])

    assert settled.stable
    for name, wanted in case["expect"].get("jobs", {}).items():
        nodes = [worker.node for worker in settled.jobs[name].placement]
        assert len(nodes) == wanted["running"], name
        if "node" in wanted:
            assert set(nodes) == {wanted["node"]}, name
    for name, share in case["expect"].get("fair_share", {}).items():
        assert settled.standing[name].fair_share == share, name
