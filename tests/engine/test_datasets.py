"""Which datasets a job may name, what it gets of them, and what a person sees."""

from __future__ import annotations

import json

import pytest

from springtide.scheduler.datasets import volumes
from springtide.scheduler.datasets.dataset import Dataset, variable
from springtide.scheduler.engine.requests.datasets import checked_datasets, datasets_of, granted, lineage
from springtide.scheduler.refusal import Refusal

PARENTS = {"research": None, "vision": "research", "speech": None, "round": "trip", "trip": "round"}
DECLARED = {
    each.name: each
    for each in (
        Dataset("imagenet", claim="big", sub_path="imagenet", projects=("research",)),
        Dataset("voices", claim="big", projects=("speech",)),
        Dataset("words", claim="small"),
    )
}


def test_a_project_uses_what_is_for_it_or_for_one_that_it_is_in() -> None:
    asked = ["words", " imagenet", "words"]
    assert checked_datasets(asked, lineage("vision", PARENTS), DECLARED) == ("words", "imagenet")
    assert lineage("round", PARENTS) == ("round", "trip")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("image-net", "There is no dataset “image-net”."),
        ("", "There is no dataset “”."),
        ("voices", "Project “vision” may not use the dataset “voices”."),
    ],
)
def test_what_is_not_there_or_not_for_the_project_is_refused_with_what_is(name: str, says: str) -> None:
    with pytest.raises(Refusal) as refused:
        checked_datasets([name], lineage("vision", PARENTS), DECLARED)
    assert (refused.value.status, refused.value.field, refused.value.message) == (422, "datasets", says)
    assert "Datasets of project “vision”: imagenet, words." in refused.value.hint


def test_a_refusal_names_no_more_than_a_few() -> None:
    many = {f"d{number:03}": Dataset(f"d{number:03}", path="/x") for number in range(100)}
    with pytest.raises(Refusal) as refused:
        checked_datasets(["x"], ["vision"], many)
    assert "d019 and 80 more." in refused.value.hint


def test_what_was_withdrawn_since_the_job_was_accepted_is_nowhere() -> None:
    above = lineage("vision", PARENTS)
    there, gone, taken = granted(("words", "old", "voices"), above, DECLARED)
    assert (there.is_there, gone, taken) == (True, Dataset("old"), Dataset("voices"))
    assert not gone.is_there


def test_a_person_sees_the_datasets_of_her_projects_and_those_for_all() -> None:
    found = datasets_of(["speech", "vision"], PARENTS, DECLARED)
    assert {name: projects for name, (_, projects) in found.items()} == {
        "imagenet": ["vision"],
        "voices": ["speech"],
        "words": ["speech", "vision"],
    }
    assert list(datasets_of([], PARENTS, DECLARED)) == ["words"]


def test_a_pod_mounts_each_dataset_read_only_and_each_claim_once() -> None:
    datasets = list(DECLARED.values())
    assert volumes.volumes(datasets) == [
        {"name": "datasets-0", "persistentVolumeClaim": {"claimName": "big", "readOnly": True}},
        {"name": "datasets-1", "persistentVolumeClaim": {"claimName": "small", "readOnly": True}},
    ]
    assert volumes.mounts(datasets) == [
        {"name": "datasets-0", "mountPath": "/datasets/imagenet", "readOnly": True, "subPath": "imagenet"},
        {"name": "datasets-0", "mountPath": "/datasets/voices", "readOnly": True},
        {"name": "datasets-1", "mountPath": "/datasets/words", "readOnly": True},
    ]


def test_programs_are_told_where_each_dataset_is() -> None:
    (told,) = variable([DECLARED["words"], Dataset("local", path="/srv/ä")]).values()
    assert json.loads(told) == {"words": "/datasets/words", "local": "/srv/ä"}
