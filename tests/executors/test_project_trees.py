"""The job's own copy of its project, whatever was submitted and whatever happens while it is made."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from benches.local_bench import LocalBench, account_bench
from msgspec.structs import replace

from springtide.scheduler import project_tree
from springtide.scheduler.executors.base import AttemptKey, AttemptSpec, ExitKind
from springtide.scheduler.executors.files.layout import JobPlaces, Layout
from springtide.scheduler.executors.files.outputs import list_own_files
from springtide.scheduler.executors.supervisor import tree as unpacking
from springtide.scheduler.executors.supervisor.tree import make_tree
from springtide.scheduler.project_tree import HEAD, TreeError, TreeFile, digest_of, pack, read_manifest
from springtide.scheduler.wire import ProjectTree
from springtide.scheduler.wire.trees import Submodule


def sent(
    bench: LocalBench, root: Path, text: str, files: dict[str, str] | None = None, **more: Any
) -> AttemptSpec:
    """Return an attempt of a project in ``root`` that runs this Python in its copy."""
    packed = pack({name: TreeFile(content.encode()) for name, content in (files or {}).items()}, {})
    tree = ProjectTree(root=str(root), digest=digest_of(packed))
    return bench.code(text, cwd=str(root), tree=tree, packed=packed, **more)


def places(bench: LocalBench) -> JobPlaces:
    return Layout(bench.state).job("job")


async def test_a_job_in_place_runs_in_the_project_itself(bench: LocalBench, tmp_path: Path) -> None:
    root = tmp_path / "study"
    root.mkdir()
    (root / "live").write_text("")
    await bench.run(sent(bench, root, "import os; print(os.listdir(), os.getcwd())", {"a.py": ""}, in_place=True))
    assert await bench.log("job") == f"['live'] {root}\n"


async def test_a_job_in_place_runs_a_script_outside_of_the_project_where_it_is(
    bench: LocalBench, tmp_path: Path
) -> None:
    root, other = tmp_path / "study", tmp_path / "other"
    for folder in (root, other):
        folder.mkdir()
    (other / "fit.py").write_text("print('live')")
    spec = sent(bench, root, "", in_place=True)
    await bench.run(replace(spec, argv=(bench.python, f"{{project_tree}}/.outside{other}/fit.py")))
    assert await bench.log("job") == "live\n"


async def test_a_working_directory_without_copied_files_is_a_folder_of_the_copy(
    bench: LocalBench, tmp_path: Path
) -> None:
    root = tmp_path / "study"
    (root / "runs" / "old").mkdir(parents=True)
    spec = sent(bench, root, "open('new', 'w')", {"a.py": ""})
    await bench.run(replace(spec, cwd=f"{root}/runs"))
    copy = places(bench).tree(str(root))
    assert (copy / "runs" / "new").exists()
    assert (copy / "runs" / "old").is_symlink()
    assert not (root / "runs" / "new").exists()


async def test_a_project_that_cannot_be_read_here_is_its_sent_files_alone(
    bench: LocalBench, tmp_path: Path
) -> None:
    spec = sent(bench, tmp_path / "gone", "import os; print(os.listdir())", {"a.py": ""})
    await bench.run(spec)
    said, listed = (await bench.log("job")).splitlines()
    assert "cannot be read here" in said
    assert listed == "['a.py']"


async def test_data_that_is_gone_when_the_job_starts_is_named_in_its_log(
    bench: LocalBench, tmp_path: Path
) -> None:
    root = tmp_path / "study"
    (root / "kept").mkdir(parents=True)
    spec = sent(bench, root, "import os; print(os.listdir())", {"a.py": ""})
    assert spec.tree is not None
    linked = ("data/", "deep/weights.bin", "kept/", ".hidden", "big\\x1b[2J/")
    await bench.run(replace(spec, tree=replace(spec.tree, linked=linked, linked_count=len(linked))))
    said, _ = (await bench.log("job")).splitlines()
    assert said == (
        f"data/, deep/weights.bin were in {root} at the submission; the job does not find them there now."
    )


async def test_folders_outside_of_the_project_are_linked_in_their_places(
    bench: LocalBench, tmp_path: Path
) -> None:
    root, other, gone = (tmp_path / name for name in ("study", "other", "gone"))
    for folder in (root / "kept", other / "data"):
        folder.mkdir(parents=True)
    place, away = f".outside{other}", f".outside{gone}"
    spec = sent(bench, root, "pass", {"a.py": "", f"{place}/b.py": "", f"{away}/c.py": ""})
    assert spec.tree is not None
    outside = (str(other), str(gone))
    linked = ("kept/", f"{other}/data/", f"{other}/lost/")
    await bench.run(replace(spec, tree=replace(spec.tree, outside=outside, linked=linked)))
    copy = places(bench).tree(str(root))
    assert (copy / place / "data").readlink() == other / "data"
    assert {path.name for path in (copy / place).iterdir()} == {"b.py", "data"}
    assert {path.name for path in copy.iterdir()} == {"a.py", "kept", ".outside"}
    assert (await bench.log("job")).splitlines() == [
        f"{gone} cannot be read here (No such file or directory): the job has the sent files alone.",
        f"lost/ was in {other} at the submission; the job does not find it there now.",
    ]


async def test_a_copy_that_cannot_be_made_keeps_the_job_waiting(bench: LocalBench, tmp_path: Path) -> None:
    spec = sent(bench, tmp_path, "pass", {"a.py": ""})
    broken = replace(spec, packed=b"broken")
    ended = await bench.run(broken)
    assert ended.exit is not None
    assert (ended.exit.kind, "copy of" in ended.exit.detail) == (ExitKind.BLOCKED, True)
    again = replace(spec, key=AttemptKey("job", 2))
    ended = await bench.run(again)
    assert ended.exit is not None
    assert ended.exit.code == 0


async def test_a_kill_ends_a_copy_in_the_making(bench: LocalBench, tmp_path: Path) -> None:
    root = tmp_path / "study"
    root.mkdir()
    spec = sent(bench, root, "pass", {f"{n}.py": "" for n in range(5000)})
    await bench.executor.launch(spec)
    await bench.executor.kill(spec.key)
    ended = await bench.gone(spec.key)
    assert ended.exit is not None
    assert ended.exit.kind is ExitKind.EXITED


@pytest.mark.root
async def test_the_copy_belongs_to_the_account_of_the_job() -> None:
    async with account_bench() as bench:
        root = bench.state / "study"
        root.mkdir()
        root.chmod(0o755)
        (root / "data").mkdir()
        ended = await bench.run(sent(bench, root, "open('own', 'w')", {"a/b.py": ""}))
        assert ended.exit is not None
        assert ended.exit.code == 0, await bench.log("job")
        copy = places(bench).tree(str(root))
        owner = places(bench).work.stat().st_uid
        assert owner != os.getuid()
        assert {path.lstat().st_uid for path in copy.rglob("*")} == {owner}


async def test_repositories_that_cannot_be_read_or_are_no_folders_of_the_copy_have_no_git_directory(
    bench: LocalBench, tmp_path: Path
) -> None:
    root, away = tmp_path / "study", tmp_path / "away"
    (root / "sub").mkdir(parents=True)
    (away / ".git" / "objects").mkdir(parents=True)
    spec = sent(bench, root, "", {"a.py": "", "sub/b.py": "", ".git/index": "", "sub/.git/index": ""})
    assert spec.tree is not None
    commit = "1" * 40
    named = [("sub", f"{away}/gone"), ("../../away", f"{away}/.git"), (str(away), f"{away}/.git")]
    submodules = tuple(Submodule(path=path, git=git, commit=commit) for path, git in named)
    tree = replace(spec.tree, git=f"{away}/gone", commit=commit, submodules=submodules)
    await bench.run(replace(spec, tree=tree))
    copy = places(bench).tree(str(root))
    assert (copy / "sub" / "b.py").exists()
    assert not list(copy.rglob(".git"))
    assert [path.name for path in away.rglob("*")] == [".git", "objects"]


# ---------- files of the job


async def test_files_that_the_job_wrote_or_changed_are_its_own(bench: LocalBench, tmp_path: Path) -> None:
    root = tmp_path / "study"
    (root / "data").mkdir(parents=True)
    text = "import os; os.mkdir('runs'); open('runs/x', 'w').write('1'); open('b.py', 'a').write('2')"
    text += "; open('data/y', 'w')"
    await bench.run(sent(bench, root, text, {"a.py": "", "b.py": ""}))
    files = list_own_files(places(bench), 10)
    assert [(file.name, file.size) for file in files] == [("study/b.py", 1), ("study/runs/x", 1)]


# ---------- packed trees


def test_both_sides_agree_on_the_format_and_on_what_is_left_out() -> None:
    assert unpacking.HEAD == project_tree.HEAD
    assert unpacking.CACHES == project_tree.CACHES


def test_equal_trees_are_equal_bytes() -> None:
    one = pack({"b": TreeFile(b"1"), "a": TreeFile(b"2", executable=True)}, {"l": "a"})
    other = pack({"a": TreeFile(b"2", executable=True), "b": TreeFile(b"1")}, {"l": "a"})
    assert one == other
    assert read_manifest(one).files == (("a", 1, True), ("b", 1, False))


def packed(files: list[Any], links: list[Any], content: bytes = b"") -> bytes:
    """Return a packed tree with any manifest."""
    head = json.dumps({"files": files, "links": links}).encode()
    return HEAD + b"%d\n" % len(head) + head + content


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"springtide tree 1\n",
        HEAD + b"5\nabc",
        HEAD + b"999999999999\n",
        packed([["a", 2, False]], [], b"x"),
        packed([["a", -1, False], ["b", 1, False]], []),
        packed([["a", 1 << 40, False]], []),
        packed([["../a", 0, False]], []),
        packed([["/a", 0, False]], []),
        packed([["a//b", 0, False]], []),
        packed([["a/./b", 0, False]], []),
        packed([["a\0b", 0, False]], []),
        packed([["", 0, False]], []),
        packed([["a" * 256, 0, False]], []),
        packed([["a", 0, False], ["a", 0, False]], []),
        packed([["a", 0, False], ["a/b", 0, False]], []),
        packed([["a/b", 0, False]], [["a", "c"]]),
        packed([], [["a", "/etc"]]),
        packed([], [["a", "../x"]]),
        packed([], [["a/b", "../../x"]]),
        packed([], [["a", ""]]),
        packed([["a", "1", False]], []),
    ],
)
def test_what_is_no_tree_or_leaves_its_folder_is_refused(broken: bytes) -> None:
    with pytest.raises(TreeError):
        read_manifest(broken)


def test_nothing_is_written_outside_of_the_copy(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "packed").write_bytes(packed([["../../escaped", 1, False]], [], b"x"))
    spec = {"tree": f"{tmp_path}/job/tree", "packed": f"{tmp_path}/packed", "root": str(tmp_path), "cwd": "/"}
    with pytest.raises(ValueError, match="leads out of the project"):
        make_tree(spec)
    assert not (tmp_path / "escaped").exists()
