"""What a SpringtideJob's manifest asks for, whose it is, and what is refused in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import inspect

from springtide.hub_extension.train_jobs.manifest import in_manifest, submission_of
from springtide.hub_extension.train_jobs.owner import Owner, owner_of, served
from springtide.hub_extension.train_jobs.schema import SpringtideJobSpec
from springtide.scheduler.refusal import Refusal

CRD = Path(__file__).parents[3] / "helm/springtide/crds/springtidejob.yaml"
OWNER = Owner("team-a", "vision", "kubernetes:vision")


def manifest(metadata=None, **spec: object):
    spec.setdefault("command", ["python", "train.py"])
    return {"metadata": {"name": "digits", "namespace": "team-a", "uid": "u-1", **(metadata or {})}, "spec": spec}


def namespace(labels=None, annotations=None):
    return {"metadata": {"name": "team-a", "labels": labels or {}, "annotations": annotations or {}}}


def refused(**given: object) -> Refusal:
    with pytest.raises(Refusal) as refusal:
        submission_of(manifest(**given), OWNER)
    return refusal.value


def test_every_field_reaches_the_submission():
    made = submission_of(
        manifest(
            image="registry.test/train:1",
            gpus=2,
            workers=4,
            minWorkers=2,
            priority="high",
            preemptible=False,
            rotate=False,
            gpuTypes=["a100"],
            require="rack",
            prefer="island",
            timeLimit="1m",
            retries=3,
            grace=1.5,
            env={"A": "b"},
            workingDirectory="/home/jovyan",
            files={"train.py": "print('ü')"},
        ),
        OWNER,
    )
    assert (made.name, made.key, made.argv, made.project) == ("digits", "u-1", ["python", "train.py"], None)
    assert (made.image, made.gpus, made.workers, made.min_workers) == ("registry.test/train:1", 2, 4, 2)
    assert (made.priority, made.preemptible, made.rotate) == (75, False, False)
    assert (made.gpu_types, made.require, made.prefer) == (("a100",), "rack", "island")
    assert (made.time_limit, made.retries, made.grace) == (60.0, 3, 1.5)
    assert (made.env, made.cwd, made.files) == ({"A": "b"}, "/home/jovyan", {"train.py": "print('ü')".encode()})


def test_the_earlier_names_of_durations_stay_good_but_not_beside_the_new_ones():
    made = submission_of(manifest(timeLimitSeconds=60, graceSeconds=1.5), OWNER)
    assert (made.time_limit, made.grace) == (60, 1.5)
    refusal = refused(timeLimitSeconds=60, timeLimit="2m")
    assert refusal.field == "spec.timeLimitSeconds"
    assert "both set" in refusal.message


def test_what_is_left_out_is_what_the_pool_takes_for_granted():
    made = submission_of(manifest(), OWNER)
    assert (made.gpus, made.workers, made.min_workers, made.priority) == (1, 1, None, 50)
    assert (made.preemptible, made.rotate, made.image, made.grace) == (None, True, None, None)


def test_the_schema_and_the_spec_know_the_same_fields_and_defaults():
    schema = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    spec = schema["properties"]["spec"]
    told: Any = inspect.type_info(SpringtideJobSpec)
    fields = {field.encode_name: field for field in told.fields}
    assert spec["properties"].keys() == fields.keys()
    assert spec["required"] == [name for name, field in fields.items() if field.required]
    defaults = {name: known["default"] for name, known in spec["properties"].items() if "default" in known}
    assert defaults == {name: fields[name].default for name in defaults}
    assert all(known.get("description") for known in spec["properties"].values())


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({"hostNetwork": True}, "spec.hostNetwork", "There is no field"),
        ({"min_workers": 1}, "spec.min_workers", "There is no field"),
        ({"gpu": 2}, "spec.gpu", "There is no field"),
        ({"command": []}, "spec.command", "a list"),
        ({"command": "python train.py"}, "spec.command", "a list"),
        ({"gpus": -1}, "spec.gpus", "a whole number from 0"),
        ({"gpus": 1.5}, "spec.gpus", "a whole number from 0"),
        ({"gpus": True}, "spec.gpus", "a whole number from 0"),
        ({"gpus": "2"}, "spec.gpus", "a whole number from 0"),
        ({"minWorkers": 0}, "spec.minWorkers", "a whole number from 1"),
        ({"timeLimitSeconds": 0}, "spec.timeLimitSeconds", "a number above 0"),
        ({"timeLimit": 0}, "spec.timeLimit", "a number above 0"),
        ({"timeLimit": "soon"}, "spec.timeLimit", "a duration such as 90"),
        ({"env": {"A": 1}}, "spec.env", "expected text"),
        ({"files": {"a": {"b": "c"}}}, "spec.files", "expected text"),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused_by_name(given, field, words):
    refusal = refused(**given)
    assert refusal.field == field
    assert words in refusal.message


@pytest.mark.parametrize("kind", ["labels", "annotations"])
def test_a_manifest_cannot_say_that_it_is_somebody_elses(kind):
    theirs = {kind: {"springtide.io/project": "speech"}}
    refusal = refused(metadata=theirs)
    assert refusal.field == f"metadata.{kind}"
    assert "“vision”" in refusal.message
    own = {kind: {"springtide.io/project": "vision", "springtide.io/user": "kubernetes:vision"}}
    assert submission_of(manifest(metadata=own), OWNER).key == "u-1"


def test_a_close_name_is_suggested():
    assert "minWorkers" in refused(minworkers=1).hint


def test_the_pools_refusals_name_the_manifests_fields():
    assert in_manifest(Refusal(422, "invalid", "…", field="min_workers")).field == "spec.minWorkers"
    assert in_manifest(Refusal(422, "invalid", "…", field="time_limit")).field == "spec.timeLimit"
    assert in_manifest(Refusal(422, "invalid", "…", field="cwd")).field == "spec.workingDirectory"
    assert in_manifest(Refusal(422, "invalid", "…", field="image")).field == "spec.image"
    assert in_manifest(Refusal(429, "too_many_jobs", "…")).field is None


@pytest.mark.parametrize("kind", ["labels", "annotations"])
def test_the_namespace_says_whose_it_is(kind):
    said = {"springtide.io/project": "vision", "springtide.io/user": "susan"}
    assert owner_of(namespace(**{kind: said})) == Owner("team-a", "vision", "susan")


def test_nobody_in_particular_is_a_user_of_the_projects_own():
    assert owner_of(namespace({"springtide.io/project": "vision"})).user == "kubernetes:vision"


@pytest.mark.parametrize(
    ("labels", "annotations", "words"),
    [
        ({}, {}, "belongs to no project"),
        ({"springtide.io/project": ""}, {}, "belongs to no project"),
        ({"springtide.io/project": "vision"}, {"springtide.io/project": "speech"}, "says two things"),
        ({}, {"springtide.io/project": "a/b"}, "cannot be a name"),
        ({}, {"springtide.io/project": "x" * 65}, "cannot be a name"),
        ({"springtide.io/project": "vision"}, {"springtide.io/user": "u" * 200}, "cannot be a name"),
    ],
)
def test_a_namespace_that_is_nobodys_is_refused_in_words(labels, annotations, words):
    with pytest.raises(Refusal, match=words) as refusal:
        owner_of(namespace(labels, annotations))
    assert "“team-a”" in refusal.value.message


def test_a_namespace_may_be_one_pools():
    assert served(namespace(), "pool-1")
    assert served(namespace({"springtide.io/pool": "pool-1"}), "pool-1")
    assert not served(namespace({"springtide.io/pool": "pool-2"}), "pool-1")
