"""Generated scenarios and manifests: whatever stands in them, the answer is a value or a refusal in words.

``SPRINGTIDE_EXAMPLES`` is the number of files for each reader, where that is more than usual.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from springtide.hub_extension.train_jobs.manifest import submission_of
from springtide.hub_extension.train_jobs.owner import Owner
from springtide.hub_extension.train_jobs.schema import SpringtideJobSpec
from springtide.scheduler import wire
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.scenario.document import ScenarioError
from springtide.scheduler.scenario.read import Scenario, parse

EXAMPLES = max(150, int(os.environ.get("SPRINGTIDE_EXAMPLES", "0")))
TRIED: Counter[str] = Counter()
"""Number of files by what became of them."""
NUMBERS = st.one_of(st.integers(), st.integers(-2, 20), st.floats())
LEAVES = st.one_of(
    st.none(), st.booleans(), NUMBERS, st.text(max_size=20), st.sampled_from(["a", "b", "vision", "1e309"])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
NODE = ("name", "gpus", "gpu_type", "labels")
PROJECT = ("name", "parent", "quota", "limit", "weight", "priority")
JOB = (
    "name",
    "project",
    "user",
    "priority",
    "preemptible",
    "workers",
    "gpus",
    "min_workers",
    "submitted",
    "placed",
)
RIGHT = {
    "nodes": [{"name": "a", "gpus": 8}],
    "projects": [{"name": "vision", "quota": 4}],
    "jobs": [{"name": "b", "project": "vision", "user": "susan", "gpus": 1}],
}
RIGHT_SPEC = {"command": ["python", "train.py"], "gpus": 1}
OWNER = Owner("team-a", "vision", "kubernetes:vision")


@pytest.fixture(scope="module", autouse=True)
def told(record_testsuite_property: Callable[[str, object], None]) -> Iterator[None]:
    """Tell `make reliability` what was tried."""
    yield
    for outcome, number in TRIED.items():
        record_testsuite_property(f"files {outcome}", number)


def rows(names: tuple[str, ...]) -> st.SearchStrategy[Any]:
    """Lists of objects with fields of the right names, and now and then something else."""
    return st.lists(st.dictionaries(st.sampled_from(names), LEAVES, max_size=len(names)), max_size=4) | VALUES


SCENARIOS = st.fixed_dictionaries(
    {}, optional={"nodes": rows(NODE), "projects": rows(PROJECT), "jobs": rows(JOB), "more": VALUES}
)
SPECS = st.dictionaries(
    st.sampled_from([*SpringtideJobSpec.__struct_fields__, "command", "minWorkers", "more"]), VALUES, max_size=8
)


def changed(part: str, field: str, value: Any) -> dict[str, Any]:
    """Return the right scenario with another value of one field."""
    row = {**RIGHT[part][0], field: value}
    return {**RIGHT, part: [row]}


LIKELY = st.integers(0, 8) | st.sampled_from(["a", "vision", "node"])
NEARLY_RIGHT = st.one_of(
    [
        st.builds(changed, st.just(part), st.sampled_from(fields), LIKELY | LEAVES)
        for part, fields in (("nodes", NODE), ("projects", PROJECT), ("jobs", JOB))
    ]
)
NEARLY_RIGHT_SPECS = st.builds(
    lambda name, value: {**RIGHT_SPEC, name: value},
    st.sampled_from(SpringtideJobSpec.__struct_fields__),
    LIKELY | VALUES,
)


def read(raw: bytes, *, as_yaml: bool) -> None:
    try:
        assert isinstance(parse(raw, "scenario", as_yaml=as_yaml), Scenario)
        TRIED["accepted"] += 1
    except ScenarioError as error:
        TRIED["refused"] += 1
        assert "scenario" in str(error)  # noqa: PT017 - either outcome is right


@settings(max_examples=EXAMPLES)
@given(raw=st.binary(max_size=200) | st.text(max_size=200).map(str.encode), as_yaml=st.booleans())
def test_a_scenario_of_any_bytes_is_read_or_refused(raw: bytes, as_yaml: bool) -> None:
    read(raw, as_yaml=as_yaml)


@settings(max_examples=EXAMPLES)
@given(document=SCENARIOS | NEARLY_RIGHT | VALUES, as_yaml=st.booleans())
def test_a_scenario_of_any_values_is_read_or_refused(document: Any, as_yaml: bool) -> None:
    text = yaml.safe_dump(document) if as_yaml else json.dumps(document)
    read(text.encode(), as_yaml=as_yaml)


@settings(max_examples=EXAMPLES)
@given(
    spec=SPECS | NEARLY_RIGHT_SPECS | VALUES,
    metadata=st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=2),
)
def test_a_manifest_of_any_values_is_taken_or_refused(spec: Any, metadata: dict[str, str]) -> None:
    manifest = {"metadata": {"name": "x", "namespace": "team-a", "uid": "u", **metadata}, "spec": spec}
    try:
        assert isinstance(submission_of(manifest, OWNER), wire.Submission)
        TRIED["accepted"] += 1
    except Refusal as refusal:
        TRIED["refused"] += 1
        assert refusal.message.endswith((".", "!", "?"))  # noqa: PT017 - either outcome is right
