"""What a TrainJob becomes, and which SpringtideJob succeeds it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from springtide.hub_extension.train_jobs.conversion import changed_since, converted, repeats, succeeds

CLAIM = {"springtide.io/claimed-by": "pool", "springtide.io/claimed-for": "susan"}
OLD: dict[str, Any] = {
    "apiVersion": "springtide.io/v1alpha1",
    "kind": "TrainJob",
    "metadata": {
        "name": "digits",
        "namespace": "vision",
        "uid": "old",
        "resourceVersion": "7",
        "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"team": "a", "app.kubernetes.io/instance": "app", "argocd.argoproj.io/instance": "app"},
        "annotations": {"note": "n", "argocd.argoproj.io/tracking-id": "app:springtide.io/TrainJob:vision/digits"},
        "finalizers": ["springtide.io/cancel", "example.com/backup"],
        "ownerReferences": [{"kind": "Workflow", "name": "w", "uid": "u"}],
        "managedFields": [{"manager": "kubectl"}],
    },
    "spec": {"command": ["train"], "gpus": 1, "suspend": False, "priority": "train"},
    "status": {"state": "running", "jobId": "job-1"},
}


def new(old: dict[str, Any] = OLD, **metadata: Any) -> dict[str, Any]:
    made = copy.deepcopy(converted(old, CLAIM, unfinished=True))
    made["metadata"] |= {"uid": "new", "generation": 1, **metadata}
    return made


def changed(found: dict[str, Any], part: str, **values: Any) -> dict[str, Any]:
    return {**found, part: {**found[part], **values}}


def test_it_has_the_names_labels_owners_and_spec_of_the_train_job():
    made = converted(OLD, CLAIM, unfinished=True)
    assert (made["apiVersion"], made["kind"]) == ("springtide.io/v1alpha1", "SpringtideJob")
    assert made["spec"] == OLD["spec"]
    assert "status" not in made
    assert made["metadata"] == {
        "name": "digits",
        "namespace": "vision",
        "labels": {"team": "a"},
        "annotations": {"note": "n", **CLAIM, "springtide.io/converted-from": "old"},
        "ownerReferences": OLD["metadata"]["ownerReferences"],
        "finalizers": ["springtide.io/cancel"],
    }


def test_one_that_has_ended_waits_for_nobody_when_it_is_deleted():
    assert "finalizers" not in converted(OLD, CLAIM, unfinished=False)["metadata"]


def test_what_the_service_makes_succeeds_the_train_job():
    assert succeeds(new(), OLD)
    assert succeeds(changed(new(), "spec", suspend=True, priority="high", ttlSecondsAfterFinished=5), OLD)
    assert succeeds(new(labels={"other": "label"}), OLD)


@pytest.mark.parametrize(
    "found",
    [
        new(annotations={"note": "n"}),
        new(annotations={"springtide.io/converted-from": "another"}),
        changed(new(), "spec", command=["other"]),
        changed(new(), "spec", gpus=8),
        new(ownerReferences=[]),
        new(ownerReferences=[{"kind": "ConfigMap", "name": "mine", "uid": "gone"}]),
        new(annotations={"springtide.io/converted-from": "old", "springtide.io/user": "joe"}),
        new(labels={"springtide.io/project": "speech"}),
    ],
    ids=["no mark", "another's mark", "command", "GPUs", "no owner", "an owner", "a person", "a project"],
)
def test_nothing_else_succeeds_it(found):
    assert not succeeds(found, OLD)


def test_a_late_change_of_the_train_job_is_carried_over():
    late = changed(OLD, "spec", suspend=True)
    assert changed_since(new(), OLD, set()) is None
    assert changed_since(new(), late, set()) == {"spec": {"suspend": True}}
    assert changed_since(new(generation=2), late, {2}) == {"spec": {"suspend": True}}
    without = {"spec": {**OLD["spec"]}, "metadata": OLD["metadata"]}
    assert changed_since(changed(new(), "spec", ttlSecondsAfterFinished=5), without, set()) == {
        "spec": {"ttlSecondsAfterFinished": None}
    }


def test_what_somebody_has_changed_about_the_springtide_job_stays():
    assert changed_since(new(generation=2), changed(OLD, "spec", suspend=True), set()) is None


def test_a_manifest_repeats_what_is_there_if_spec_and_person_are_the_same():
    assert repeats(OLD, new())
    assert repeats(changed(OLD, "metadata", uid="later"), new())
    assert not repeats(changed(OLD, "spec", gpus=2), new())
    assert not repeats(changed(OLD, "spec", suspend=True), new())
    assert not repeats(changed(OLD, "metadata", annotations={"springtide.io/user": "joe"}), new())
    assert not repeats(OLD, new(deletionTimestamp="2026-01-01T00:00:00Z"))
