"""Which datasets a job may name, what it gets of them, and what a person sees."""

from __future__ import annotations

import json

import pytest

from springtide.scheduler import datasets
from springtide.scheduler.datasets import Dataset, variable
from springtide.scheduler.declared import NamedSecret
from springtide.scheduler.engine.requests.grants import checked_names, granted, usable_by
from springtide.scheduler.engine.state.lineage import lineage
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
    assert checked_names(asked, lineage("vision", PARENTS), DECLARED, "dataset") == ("words", "imagenet")
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
        checked_names([name], lineage("vision", PARENTS), DECLARED, "dataset")
    assert (refused.value.status, refused.value.field, refused.value.message) == (422, "datasets", says)
    assert "Datasets of project “vision”: imagenet, words." in refused.value.hint


def test_a_secret_that_is_not_there_or_not_for_the_project_is_refused_with_those_that_are() -> None:
    secrets = {"hf": NamedSecret("hf", file="/a"), "wandb": NamedSecret("wandb", file="/b", projects=("speech",))}
    with pytest.raises(Refusal) as refused:
        checked_names(["wandb"], lineage("vision", PARENTS), secrets, "secret")
    assert (refused.value.code, refused.value.field) == ("secret", "secrets")
    assert refused.value.message == "Project “vision” may not use the secret “wandb”."
    assert refused.value.hint == "Secrets of project “vision”: hf. An admin of the pool can change that."
    assert checked_names(["hf", "hf"], lineage("vision", PARENTS), secrets, "secret") == ("hf",)
    (gone,) = granted(["wandb"], lineage("vision", PARENTS), secrets, NamedSecret)
    assert not gone.is_there


def test_a_refusal_names_no_more_than_a_few() -> None:
    many = {f"d{number:03}": Dataset(f"d{number:03}", path="/x") for number in range(100)}
    with pytest.raises(Refusal) as refused:
        checked_names(["x"], ["vision"], many, "dataset")
    assert "d019 and 80 more." in refused.value.hint


def test_what_was_withdrawn_since_the_job_was_accepted_is_nowhere() -> None:
    above = lineage("vision", PARENTS)
    there, gone, taken = granted(("words", "old", "voices"), above, DECLARED, Dataset)
    assert (there.is_there, gone, taken) == (True, Dataset("old"), Dataset("voices"))
    assert not gone.is_there


def test_a_person_sees_the_datasets_of_her_projects_and_those_for_all() -> None:
    found = usable_by(["speech", "vision"], PARENTS, DECLARED)
    assert {name: projects for name, (_, projects) in found.items()} == {
        "imagenet": ["vision"],
        "voices": ["speech"],
        "words": ["speech", "vision"],
    }
    assert list(usable_by([], PARENTS, DECLARED)) == ["words"]


def test_a_pod_mounts_each_dataset_read_only_and_each_claim_once() -> None:
    declared = list(DECLARED.values())
    assert datasets.volumes(declared) == [
        {"name": "datasets-0", "persistentVolumeClaim": {"claimName": "big", "readOnly": True}},
        {"name": "datasets-1", "persistentVolumeClaim": {"claimName": "small", "readOnly": True}},
    ]
    assert datasets.mounts(declared) == [
        {"name": "datasets-0", "mountPath": "/datasets/imagenet", "readOnly": True, "subPath": "imagenet"},
        {"name": "datasets-0", "mountPath": "/datasets/voices", "readOnly": True},
        {"name": "datasets-1", "mountPath": "/datasets/words", "readOnly": True},
    ]


def test_programs_are_told_where_each_dataset_is() -> None:
    (told,) = variable([DECLARED["words"], Dataset("local", path="/srv/ä")]).values()
    assert json.loads(told) == {"words": "/datasets/words", "local": "/srv/ä"}
