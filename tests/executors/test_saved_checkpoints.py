"""The program that lists, copies and deletes checkpoints, among files that jobs control."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from springtide.scheduler.executors.base import (
    AttemptKey,
    AttemptSpec,
    CheckpointGoneError,
    ExecutorError,
    SavedCheckpoint,
)
from springtide.scheduler.executors.checkpoint_files import CheckpointFiles, place_of
from springtide.scheduler.executors.files.layout import JobPlaces
from springtide.scheduler.executors.supervisor.saved import step_of
from springtide.scheduler.executors.supervisor.tree import make_tree
from springtide.scheduler.wire import JobOptions, ProjectTree


def spec_of(job: str, cwd: str | None = None, **more: Any) -> AttemptSpec:
    return AttemptSpec(AttemptKey(job, 1), 1, job, "p", "susan", ("true",), (), 1, 1.0, cwd=cwd, **more)


class Jobs:
    """Two jobs below one folder: ``a``, which has run, and ``b``."""

    def __init__(self, root: Path, *, strict: bool) -> None:
        self.files = CheckpointFiles(strict=strict)
        self.a, self.b = JobPlaces(root / "a"), JobPlaces(root / "b")
        for places in (self.a, self.b):
            for folder in (places.work, places.checkpoints, places.output):
                folder.mkdir(parents=True)

    def save(self, number: int, step: object = 1, **files: str) -> Path:
        place = self.a.checkpoints / f"{number:08d}"
        place.mkdir()
        for name, text in files.items():
            (place / name).write_text(text)
        listed = {name: {"size": len(text), "sha256": ""} for name, text in files.items()}
        (place / "manifest.json").write_text(json.dumps({"step": step, "at": 5.0, "attempt": 1, "files": listed}))
        return place

    async def listed(self, also: str = "", **more: Any) -> list[SavedCheckpoint]:
        return list(await self.files.listed(spec_of("a", **more), self.a, None, also))

    async def copy(self, name: str, **more: Any) -> Any:
        places = (self.a, self.b)
        return await self.files.copy(
            spec_of("a"), name, spec_of("b", **more), places=places, seen=self.b, account=None, owner=None, also=""
        )


@pytest.fixture(params=[True, False], ids=["strict", "as the account"])
def jobs(tmp_path: Path, request: pytest.FixtureRequest) -> Jobs:
    return Jobs(tmp_path, strict=request.param)


async def test_checkpoints_are_listed_and_copied_whole(jobs: Jobs) -> None:
    jobs.save(7, 70, model="m" * 9)
    (jobs.save(8, 80, model="n") / "deep").mkdir()
    (jobs.a.checkpoints / "00000008/deep/part").write_text("p")
    (jobs.a.work / "checkpoint-5").mkdir()
    (jobs.a.work / "checkpoint-5/trainer_state.json").write_text("{}")
    (jobs.a.work / "checkpoint-5/model.safetensors").write_text("x")
    found = await jobs.listed()
    assert [(each.name, each.step, each.own) for each in found] == [
        ("00000008", 80, True),
        ("00000007", 70, True),
        ("checkpoint-5", 5, False),
    ]
    assert await jobs.copy("00000008") is None
    assert (jobs.b.checkpoints / "00000008/deep/part").read_text() == "p"
    copied = await jobs.copy("checkpoint-5")
    assert copied.path == "checkpoint-5"
    assert (jobs.b.work / "checkpoint-5/model.safetensors").read_text() == "x"
    assert not list(jobs.b.root.rglob("*.new"))


async def test_manifests_that_lie_are_left_out_or_count_for_nothing(jobs: Jobs) -> None:
    for number, step in enumerate((True, "1", None, [1], 10**400), 1):
        jobs.save(number, step)
    (jobs.a.checkpoints / "00000009").mkdir()
    (jobs.a.checkpoints / "00000009/manifest.json").write_text("[1]")
    os.mkfifo(jobs.a.checkpoints / "00000011")
    (jobs.a.checkpoints / "00000012").mkdir()
    os.mkfifo(jobs.a.checkpoints / "00000012/manifest.json")
    assert {each.step for each in await jobs.listed()} == {None}


@pytest.mark.parametrize("harm", ["cut", "longer", "missing", "a link", "a folder"])
async def test_a_checkpoint_without_the_files_of_its_manifest_is_neither_listed_nor_copied(
    jobs: Jobs, harm: str
) -> None:
    jobs.save(1, 10, model="one")
    model = jobs.save(2, 20, model="two") / "model"
    model.unlink()
    if harm in {"cut", "longer"}:
        model.write_text("t" if harm == "cut" else "two and more")
    elif harm == "a link":
        model.symlink_to("gone")
    elif harm == "a folder":
        model.mkdir()
    assert [each.name for each in await jobs.listed()] == ["00000001"]
    with pytest.raises(CheckpointGoneError):
        await jobs.copy("00000002")


@pytest.mark.parametrize("path", ["../00000001/model", "/etc/hostname", "", "./model", "deep/../model"])
async def test_a_manifest_names_only_files_of_its_own_checkpoint(jobs: Jobs, path: str) -> None:
    place = jobs.save(1, model="m")
    (place / "deep").mkdir()
    about = {"step": 1, "at": 5.0, "attempt": 1, "files": {path: {"size": 1}}}
    (place / "manifest.json").write_text(json.dumps(about))
    assert await jobs.listed() == []


async def test_a_whole_checkpoint_may_have_folders(jobs: Jobs) -> None:
    place = jobs.save(1, 10)
    (place / "shards/0").mkdir(parents=True)
    (place / "shards/0/part").write_text("p")
    about = {"step": 10, "at": 5.0, "attempt": 1, "files": {"shards/0/part": {"size": 1}}}
    (place / "manifest.json").write_text(json.dumps(about))
    assert [each.size for each in await jobs.listed()] == [1]


async def test_what_is_no_plain_file_is_not_copied(jobs: Jobs) -> None:
    place = jobs.save(1)
    os.mkfifo(place / "pipe")
    with pytest.raises(ExecutorError, match="no plain file"):
        await jobs.copy("00000001")
    assert not list(jobs.b.checkpoints.iterdir())
    with pytest.raises(CheckpointGoneError):
        await jobs.copy("00000002")


async def test_where_people_share_an_account_no_link_is_followed(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path / "jobs", strict=True)
    other = tmp_path / "other"
    (other / "run").mkdir(parents=True)
    (other / "run/ckpt.pt").write_text("secret")
    (jobs.a.work / "last.pt").symlink_to(other / "run/ckpt.pt")
    (jobs.a.work / "run").symlink_to(other / "run")
    (jobs.a.checkpoints / "00000003").symlink_to(other)
    (jobs.save(1) / "model").symlink_to(other / "run/ckpt.pt")
    found = await jobs.listed()
    assert [each.name for each in found] == ["00000001"]
    with pytest.raises(ExecutorError, match="cannot be copied"):
        await jobs.copy("00000001")
    assert not list(jobs.b.checkpoints.iterdir())
    assert await jobs.listed(cwd=str(other)) == [found[0]], "a folder elsewhere has none"
    jobs.a.checkpoints.rename(jobs.a.root / "away")
    jobs.a.checkpoints.symlink_to(other / "run")
    assert await jobs.listed() == []
    with pytest.raises(CheckpointGoneError):
        await jobs.files.delete(spec_of("a"), ["ckpt.pt"], jobs.a, None, "")
    assert (other / "run/ckpt.pt").read_text() == "secret"


async def test_with_the_rights_of_its_account_a_job_has_what_its_links_lead_to(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path / "jobs", strict=False)
    (tmp_path / "run").mkdir()
    (tmp_path / "run/ckpt_step_4.pt").write_text("weights")
    (jobs.a.work / "run").symlink_to(tmp_path / "run")
    assert [each.name for each in await jobs.listed()] == ["run/ckpt_step_4.pt"]
    await jobs.copy("run/ckpt_step_4.pt")
    assert not (jobs.b.work / "run").is_symlink()
    assert (jobs.b.work / "run/ckpt_step_4.pt").read_text() == "weights"


async def test_an_older_file_is_the_jobs_if_the_job_began_with_it(jobs: Jobs) -> None:
    (jobs.a.work / "last.pt").write_text("x")
    os.utime(jobs.a.work / "last.pt", (100.0, 100.0))
    assert await jobs.listed(since=200.0) == []
    assert [each.name for each in await jobs.listed("last.pt", since=200.0)] == ["last.pt"]


def test_a_copy_comes_into_the_place_where_the_program_looks_for_it(tmp_path: Path) -> None:
    places, seen = JobPlaces(tmp_path / "b"), JobPlaces(Path("/springtide/job"))
    tree = ProjectTree(root="/home/susan/study", digest="0" * 64)
    copied = spec_of("b", "/home/susan/study/deep", tree=tree)
    assert place_of("run/last.pt", copied, places, seen).target == places.checkpoints / "forked/run/last.pt"
    assert place_of("run/last.pt", copied, places, seen).seen == "run/last.pt"
    assert place_of("../output/last.pt", copied, places, seen).seen == "/springtide/job/output/last.pt"
    there = spec_of("b", "/home/susan/study")
    with pytest.raises(ExecutorError, match="runs in the folder “/home/susan/study” itself"):
        place_of("last.pt", there, places, seen)
    named = spec_of("b", "/home/susan/study", options=JobOptions(resume="--from {checkpoint}"))
    assert place_of("last.pt", named, places, seen).seen == "/springtide/job/checkpoints/forked/last.pt"


async def test_a_checkpoint_that_waits_for_the_copy_of_a_project_has_its_name_there(jobs: Jobs) -> None:
    waits = jobs.a.checkpoints / "forked/run"
    waits.mkdir(parents=True)
    (waits / "last.ckpt").write_text("w")
    (jobs.a.checkpoints / "last.ckpt").write_text("its own")
    tree = ProjectTree(root="/home/susan/study", digest="0" * 64)
    in_copy: dict[str, Any] = {"cwd": "/home/susan/study", "tree": tree}
    names = {each.name for each in await jobs.listed(**in_copy)}
    assert names == {"run/last.ckpt", "../checkpoints/last.ckpt"}
    made = jobs.a.tree(tree.root)
    made.mkdir(parents=True)
    (waits.parent / "run").rename(made / "run")
    assert {each.name for each in await jobs.listed(**in_copy)} == names
    assert [each.name for each in await jobs.listed("run/last.ckpt", since=9e9, **in_copy)] == ["run/last.ckpt"]


def test_a_copy_of_the_project_has_the_checkpoint_and_links_to_what_lies_beside_it(tmp_path: Path) -> None:
    project, seeds, work = tmp_path / "study", tmp_path / "checkpoints/forked", tmp_path / "work"
    (project / "run").mkdir(parents=True)
    for name in ("last.pt", "log.txt"):
        (project / "run" / name).write_text("the project's")
    (seeds / "run").mkdir(parents=True)
    (seeds / "run/last.pt").write_text("the fork's")
    work.mkdir()
    head = json.dumps({"files": [["train.py", 1, False]], "links": []}).encode()
    (tmp_path / "packed").write_bytes(b"springtide tree 1\n%d\n%bx" % (len(head), head))
    tree = work / "study"
    spec = {"tree": str(tree), "root": str(project), "packed": str(tmp_path / "packed"), "cwd": str(tree)}
    make_tree({**spec, "repositories": [], "seeds": str(seeds)})
    assert (tree / "run/last.pt").read_text() == "the fork's"
    assert (tree / "run/log.txt").readlink() == project / "run/log.txt"
    assert (project / "run/last.pt").read_text() == "the project's"
    assert not seeds.exists()


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("out/checkpoint-500", 500),
        ("epoch=3-step=400.ckpt", 400),
        ("model.snapshot_iter_20", 20),
        ("epoch12.pt", 12),
        ("orbax/00000004", 4),
        ("last.pt", None),
        ("resnet50.weights.h5", None),
    ],
)
def test_the_step_of_a_recognised_checkpoint_is_in_its_name(name: str, step: float | None) -> None:
    assert step_of(name) == step
