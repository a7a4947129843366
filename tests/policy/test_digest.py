from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest

from springtide.scheduler.model import (
    Job,
    JobChanged,
    JobRemoved,
    Node,
    NodesChanged,
    Phase,
    Project,
    ProjectsChanged,
    Settings,
    SettingsChanged,
    Snapshot,
    Worker,
)
from springtide.scheduler.policy import Planner, digest

SNAPSHOT = Snapshot(
    now=10.0,
    nodes=(Node("b", 4, labels={"rack": "r1", "zone": "z"}, taken=frozenset({3, 1})), Node("a", 2)),
    projects=(Project("p", quota=2), Project("q", quota=None, age=1)),
    jobs=(
        Job("j1", "p", gpus=2, phase=Phase.RUNNING, placement=(Worker(0, "a", (0, 1)),), started=1.0),
        Job("j2", "q", gpus=1, gpu_types=()),
        Job("j3", "p", gpus=2),
    ),
)


def through_json(data):
    return json.loads(json.dumps(data))


def test_a_snapshot_comes_back_from_json_as_it_was():
    assert digest.snapshot_from_data(through_json(digest.snapshot_to_data(SNAPSHOT))) == SNAPSHOT


@pytest.mark.parametrize(
    "change",
    [
        JobChanged(SNAPSHOT.jobs[0]),
        JobRemoved("j1"),
        ProjectsChanged(SNAPSHOT.projects),
        NodesChanged(SNAPSHOT.nodes),
        SettingsChanged(Settings(min_runtime=5)),
    ],
    ids=lambda change: type(change).__name__,
)
def test_a_change_comes_back_from_json_as_it_was(change):
    assert digest.change_from_data(through_json(digest.change_to_data(change))) == change


def test_a_plan_comes_back_from_json_as_it_was():
    plan = Planner(SNAPSHOT).plan(10.0)

    assert plan.decisions
    assert digest.plan_from_data(through_json(digest.plan_to_data(plan))) == plan


def test_the_digest_ignores_order_and_sees_everything_else():
    shuffled = replace(
        SNAPSHOT,
        nodes=SNAPSHOT.nodes[::-1],
        projects=SNAPSHOT.projects[::-1],
        jobs=SNAPSHOT.jobs[::-1],
    )

    assert digest.digest(shuffled) == digest.digest(SNAPSHOT)
    assert digest.digest(replace(SNAPSHOT, now=11.0)) != digest.digest(SNAPSHOT)


def test_data_of_an_unknown_kind_is_refused():
    with pytest.raises(msgspec.ValidationError, match="kind"):
        digest.change_from_data({"kind": "nonsense"})
