from __future__ import annotations

import json
from pathlib import Path

import pytest

from springtide.training import DatasetError
from springtide.training.job import Job


def test_a_job_finds_its_datasets_by_name(place) -> None:
    told = {"SPRINGTIDE_DATASETS": json.dumps({"imagenet": "/datasets/imagenet"})}
    assert Job({**place.environment(), **told}).dataset("imagenet") == Path("/datasets/imagenet")
    assert Job(told).dataset("imagenet") == Path("/datasets/imagenet")


def test_a_job_without_the_dataset_is_told_the_option(place) -> None:
    job = Job({**place.environment(), "SPRINGTIDE_DATASETS": '{"coco": "/datasets/coco"}'})
    with pytest.raises(DatasetError, match=r'it has: coco\. .*datasets=\["imagenet"\], or --dataset imagenet'):
        job.dataset("imagenet")


@pytest.mark.parametrize("environment", [{}, {"SPRINGTIDE_DATASETS": '{"coco": "/data/coco"}'}])
def test_outside_a_pool_the_variable_says_where_they_are(environment: dict[str, str]) -> None:
    with pytest.raises(DatasetError, match="Elsewhere set SPRINGTIDE_DATASETS"):
        Job(environment).dataset("imagenet")


@pytest.mark.parametrize("text", ["", "imagenet=/data", "[]", '{"imagenet": 3}'])
def test_a_variable_in_another_form_is_told(text: str) -> None:
    with pytest.raises(DatasetError, match="is not an object of JSON"):
        Job({"SPRINGTIDE_DATASETS": text}).dataset("imagenet")
