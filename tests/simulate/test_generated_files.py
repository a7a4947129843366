"""Generated scenarios and manifests: whatever stands in them, the answer is a value or a refusal in words."""

from __future__ import annotations

import json
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from springtide.hub_extension.train_jobs.manifest import submission_of
from springtide.hub_extension.train_jobs.owner import Owner
from springtide.hub_extension.train_jobs.schema import TrainJobSpec
from springtide.scheduler import wire
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.scenario.document import ScenarioError
from springtide.scheduler.scenario.read import Scenario, parse

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
OWNER = Owner("team-a", "vision", "kubernetes:vision")


def rows(names: tuple[str, ...]) -> st.SearchStrategy[Any]:
    """Lists of objects with fields of the right names, and now and then something else."""
    return st.lists(st.dictionaries(st.sampled_from(names), LEAVES, max_size=len(names)), max_size=4) | VALUES


SCENARIOS = st.fixed_dictionaries(
    {}, optional={"nodes": rows(NODE), "projects": rows(PROJECT), "jobs": rows(JOB), "more": VALUES}
)
SPECS = st.dictionaries(
    st.sampled_from([*TrainJobSpec.__struct_fields__, "command", "minWorkers", "more"]), VALUES, max_size=8
)


def read(raw: bytes, *, as_yaml: bool) -> None:
    try:
        assert isinstance(parse(raw, "scenario", as_yaml=as_yaml), Scenario)
    except ScenarioError as error:
        assert "scenario" in str(error)  # noqa: PT017 - either outcome is right


@settings(max_examples=150, deadline=None)
@given(raw=st.binary(max_size=200) | st.text(max_size=200).map(str.encode), as_yaml=st.booleans())
def test_a_scenario_of_any_bytes_is_read_or_refused(raw: bytes, as_yaml: bool) -> None:
    read(raw, as_yaml=as_yaml)


@settings(max_examples=150, deadline=None)
@given(document=SCENARIOS | VALUES, as_yaml=st.booleans())
def test_a_scenario_of_any_values_is_read_or_refused(document: Any, as_yaml: bool) -> None:
    text = yaml.safe_dump(document) if as_yaml else json.dumps(document)
    read(text.encode(), as_yaml=as_yaml)


@settings(max_examples=150, deadline=None)
@given(spec=SPECS | VALUES, metadata=st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=2))
def test_a_manifest_of_any_values_is_taken_or_refused(spec: Any, metadata: dict[str, str]) -> None:
    manifest = {"metadata": {"name": "x", "namespace": "team-a", "uid": "u", **metadata}, "spec": spec}
    try:
        assert isinstance(submission_of(manifest, OWNER), wire.Submission)
    except Refusal as refusal:
        assert refusal.message.endswith((".", "!", "?"))  # noqa: PT017 - either outcome is right
