"""What the API server refuses by the definition of SpringtideJobs: wrong specs and changes, in words."""

from __future__ import annotations

import asyncio
import random
import re
from typing import Any

import pytest
from clusters.cluster import ClusterError

from springtide.hub_extension.train_jobs.manifest import submission_of
from springtide.hub_extension.train_jobs.owner import Owner
from springtide.scheduler.engine import EngineSettings
from springtide.scheduler.engine.requests import validation
from springtide.scheduler.model import Node, Project
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.resources.per_gpu import per_gpu_of
from springtide.scheduler.store.tables import ProjectRecord

ROUNDS = 400
AT_ONCE = 8
OWNER = Owner("team-a", "vision", "kubernetes:vision")
WRONG: Any = (
    ({"gpus": -1}, "spec.gpus"),
    ({"gpus": 1.5}, "spec.gpus"),
    ({"gpus": True}, "spec.gpus"),
    ({"gpus": 10**30}, "spec.gpus"),
    ({"command": []}, "spec.command"),
    ({"command": "python"}, "spec.command"),
    ({"command": [""]}, "There is no command to run"),
    ({"workers": 2, "minWorkers": 3}, "minWorkers is larger than workers"),
    ({"timeLimitSeconds": 0}, "spec.timeLimitSeconds"),
    ({"timeLimit": "soon"}, "expected a duration above 0 up to 3650d, such as 90 (seconds), 10m, 2h, 1h30m or 1d"),
    ({"timeLimit": 0}, "expected a duration above 0"),
    ({"timeLimit": 60, "timeLimitSeconds": 60}, "timeLimit and timeLimitSeconds are both set"),
    ({"grace": 7200}, "expected a duration from 0 up to 1h"),
    ({"memory": "much"}, "expected an amount of memory from 16Mi"),
    ({"cpus": 0}, "expected a number of cores from 0.001"),
    ({"priority": "urgent"}, "expected a name such as high, or a whole number from 0 up to 1000000"),
    ({"tags": ["two words"]}, "without spaces, commas or control characters"),
    ({"gpus": 0, "workers": 2}, "a job without GPUs has one worker"),
    ({"gpus": 0, "gpuTypes": ["a100"]}, "gpuTypes is about GPUs, and the job asks for none"),
    ({"gpus": 0, "rdma": True}, "rdma is about GPUs, and the job asks for none"),
    ({"workingDirectory": "work"}, "expected an absolute path, from /"),
    ({"files": {"../escape": "x"}}, "expected relative paths with forward slashes"),
    ({"env": {"A": 1}}, "spec.env.A"),
    ({"env": {"A=B": "x"}}, "the name of an environment variable is not empty and has no equals sign"),
    ({"ttlSecondsAfterFinished": -1}, "spec.ttlSecondsAfterFinished"),
)
GOOD: Any = {
    "command": (["python", "train.py"], ["true"]),
    "gpus": (0, 1, 8),
    "workers": (1, 2, 4),
    "minWorkers": (1, 2),
    "cpus": (1, "0.5", "500m"),
    "memory": ("16Gi", "64 MB", 1 << 30, "100000000"),
    "priority": ("train", "critical", 75, "50", 0),
    "preemptible": (True, False),
    "gpuTypes": ([],),
    "require": ("node",),
    "prefer": ("node",),
    "rdma": (True, False),
    "timeLimit": ("1h30m", "90", "1d 2h", "2 h", 60, "1.5h", "3min", "1h  "),
    "timeLimitSeconds": (60, 0.5),
    "grace": ("30s", 0, 3600, "0"),
    "graceSeconds": (1.5,),
    "retries": (0, 100),
    "keepLast": (1,),
    "outputs": (["runs/**", "x" * 150],),
    "env": ({"A": "b", "B C": ""},),
    "tags": (["a", "x" * 64],),
    "testRun": (True, False),
    "workingDirectory": ("/", "/home/jovyan"),
    "files": ({"a/b.py": "x", "...": "", ".env": ""},),
    "suspend": (True, False),
    "ttlSecondsAfterFinished": (0, 3600),
}
BAD: Any = {
    "command": ([], [""], "python"),
    "gpus": (-1, 1.5, "2", 10**7),
    "workers": (0, 10**7),
    "cpus": (0, "-1", "m", "0.5 m", 10_001),
    "memory": ("16 Xi", "", -1, 1024, "Gi"),
    "priority": ("urgent", -1, 10**7, "", "-1", "5.0"),
    "gpuTypes": (["x" * 129], "a100"),
    "require": ("x" * 129,),
    "timeLimit": ("soon", 0, "", " 1h", "1h2d", "1m 1h", "h", "1.h", "60 ", "x" * 70, 10**10),
    "timeLimitSeconds": (0, "60"),
    "grace": ("later", -1, 3601),
    "retries": (101, -1),
    "tags": (["a b"], ["a,b"], [""], ["x" * 65], ["a"] * 21),
    "workingDirectory": ("work", ""),
    "files": ({"/a": ""}, {"a//b": ""}, {"..": ""}, {"a/./b": ""}, {"": ""}, {"a\\b": ""}, {"a/": ""}),
    "env": ({"": "x"}, {"=": "x"}, {"A": 1}),
    "suspend": ("yes",),
    "ttlSecondsAfterFinished": (-1, 10**10),
    "hostNetwork": (True,),
}
UNDECIDED: Any = {
    "grace": ("2h", "61m"),
    "timeLimit": ("0", "4000d", "0s"),
    "memory": ("1", "9000P"),
    "cpus": ("0", "99999999"),
    "priority": ("99999999",),
    "gpus": (65,),
    "require": ("",),
    "keepBest": ("loss:most",),
    "datasets": (["imagenet"],),
    "gpuTypes": (["a100"], [""]),
    "env": ({"A\x7f": "x"},),
    "outputs": (["../*"],),
    "files": ({"a": "", "a/b": ""},),
}


def drawn(draw: random.Random) -> tuple[dict[str, Any], bool]:
    """Return a random spec, and whether the API server has all that is needed to judge it."""
    spec = {"command": ["true"], "gpus": draw.choice((0, 1, 1, 2))}
    decided = True
    for name in draw.sample(sorted(GOOD), draw.randint(0, 5)):
        spec[name] = draw.choice(GOOD[name])
    if draw.random() < 0.5:
        name = draw.choice(sorted(BAD))
        spec[name] = draw.choice(BAD[name])
    if draw.random() < 0.2:
        decided, name = False, draw.choice(sorted(UNDECIDED))
        spec[name] = draw.choice(UNDECIDED[name])
    return spec, decided


def refused_by_the_service(spec: dict[str, Any]) -> str:
    """Return why the service refuses a spec on a pool with all that it may need, empty if it takes it."""
    node = Node("a", 64, per_gpu=per_gpu_of(64_000, 1 << 50, 64, 64))
    records = {"vision": ProjectRecord(Project("vision", quota=None))}
    context = validation.ValidationContext((node,), records, EngineSettings())
    manifest = {"metadata": {"name": "digits", "namespace": "team-a", "uid": "u-1"}, "spec": spec}
    try:
        made = submission_of(manifest, OWNER)
        validation.validate_submission(made, OWNER.user, "vision", context, job_id="a", now=1.0)
    except Refusal as refusal:
        return f"{refusal.field}: {refusal.message}"
    return ""


async def refused_by_the_cluster(team, spec: dict[str, Any]) -> str:
    """Return why the API server refuses a spec, as ``kubectl apply`` asks it; empty if it takes it."""
    body = {
        "apiVersion": "springtide.io/v1alpha1",
        "kind": "SpringtideJob",
        "metadata": {"name": "digits"},
        "spec": spec,
    }
    try:
        await team.ask("POST", team.path, body, dryRun="All", fieldValidation="Strict")
    except ClusterError as error:
        if error.status not in {400, 422}:
            raise
        return str(error)
    return ""


async def test_what_the_schema_knows_to_be_wrong_never_gets_into_the_cluster(team):
    for spec, words in WRONG:
        with pytest.raises(ClusterError, match=re.escape(words)):
            await team.apply(**spec)


async def test_the_api_server_refuses_nothing_that_the_service_takes_and_all_that_it_can_judge(team):
    draw = random.Random(1)
    specs = [drawn(draw) for _ in range(ROUNDS)]
    here = [refused_by_the_service(spec) for spec, _ in specs]
    there: list[str] = []
    for start in range(0, ROUNDS, AT_ONCE):
        part = specs[start : start + AT_ONCE]
        there += await asyncio.gather(*(refused_by_the_cluster(team, spec) for spec, _ in part))
    for (spec, decided), ours, theirs in zip(specs, here, there, strict=True):
        assert ours or not theirs, f"{spec} is refused by the API server alone: {theirs}"
        assert theirs or not ours or not decided, f"{spec} is refused by the service alone: {ours}"
    assert 50 < sum(map(bool, there)) < ROUNDS - 50


@pytest.mark.parametrize("field", ["gpuCount", "hostNetwork", "volumes", "project", "user", "min_workers"])
async def test_kubectl_apply_is_refused_for_a_field_that_does_not_exist(team, field):
    refusal = await refused_by_the_cluster(team, {"command": ["true"], field: 1})
    assert f'unknown field "spec.{field}"' in refusal


async def test_a_field_that_does_not_exist_is_no_part_of_the_object(team):
    await team.apply(hostNetwork=True, user="root")
    assert not {"hostNetwork", "user"} & (await team.get())["spec"].keys()


async def test_a_spec_cannot_be_changed_and_the_field_is_named(team):
    await team.apply(env={"A": "a"}, timeLimit="1h")
    for change in (
        {"gpus": 2},
        {"command": ["false"]},
        {"env": {"A": "b"}},
        {"env": None},
        {"image": "registry.test/team/x"},
        {"timeLimit": None},
        {"timeLimit": 3600},
    ):
        name = next(iter(change))
        words = f"{name} cannot be changed: delete the object and create it again"
        with pytest.raises(ClusterError, match=re.escape(words)):
            await team.patch("digits", {"spec": change})
