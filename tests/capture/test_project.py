"""A job runs in a copy of its project, as that was at the submission; data is read where it lies."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from jobs.project_copies import copy_of, run_copy

from springtide.scheduler.capture import CaptureError, Here, capture_words, notes_of, sources, submission
from springtide.scheduler.capture.pauses import pause_words
from springtide.scheduler.capture.project_root import find_root
from springtide.scheduler.capture.project_walk import Caps, capture_project


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a mark, in a home directory."""
    root = tmp_path / "home" / "study"
    root.mkdir(parents=True)
    (root / "pyproject.toml").write_text("")
    return root


@pytest.fixture
def here(project: Path) -> Here:
    return Here(project, home=project.parent)


def write(root: Path, **files: str) -> None:
    """Write files by their paths, with ``__`` for slashes and ``_dot_`` for dots."""
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


# ---------- the copy


def test_a_program_finds_its_project_by_its_own_place(project: Path, here: Here, tmp_path: Path) -> None:
    write(
        project, lib__words_dot_py="WORD = 'before'", templates__page_dot_j2="page before", data__x_dot_npy="data"
    )
    (project / "scripts").mkdir()
    (project / "scripts" / "train.py").write_text(
        "import pathlib, sys\n"
        "root = pathlib.Path(__file__).resolve().parent.parent\n"
        "sys.path.insert(0, str(root))\n"
        "from lib.words import WORD\n"
        "print(WORD, (root / 'templates/page.j2').read_text(), (root / 'data/x.npy').read_text())\n"
    )
    captured = capture_words(["python", "scripts/train.py"], here)
    write(project, lib__words_dot_py="WORD = 'after'", templates__page_dot_j2="page after")
    done = run_copy(captured, tmp_path / "job")
    assert done.stdout.split() == ["before", "page", "before", "data"], done.stderr
    assert captured.argv == (sys.executable, "scripts/train.py")


def test_settings_and_programs_that_a_shell_script_calls_are_those_of_the_submission(
    project: Path, here: Here, tmp_path: Path
) -> None:
    write(project, conf_dot_yaml="rate: 1", train_dot_py="print(open('conf.yaml').read())")
    (project / "run.sh").write_text(f"{sys.executable} train.py\n./tool\n")
    (project / "tool").write_text("#!/bin/sh\necho tool\n")
    (project / "tool").chmod(0o755)
    captured = capture_words(["bash", "run.sh"], here)
    write(project, conf_dot_yaml="rate: 2", train_dot_py="raise SystemExit('live')", tool="#!/bin/sh\nexit 1\n")
    done = run_copy(captured, tmp_path / "job")
    assert done.stdout.split() == ["rate:", "1", "tool"], done.stderr


def test_folders_of_any_name_links_and_compiled_modules_are_copied(
    project: Path, here: Here, tmp_path: Path
) -> None:
    outside = tmp_path / "elsewhere" / "shared"
    write(outside, helper_dot_py="WORD = 'linked'")
    write(project, conf__0_base_dot_yaml="a", train_dot_py="", pack__mod_dot_py="")
    write(project / "my-folder" / "2-fast", settings_dot_yaml="b")
    (project / "shared").symlink_to(outside)
    (project / "alias").symlink_to(project / "pack")
    (project / "loop").symlink_to(project)
    (project / "native.so").write_bytes(b"\x7fELF")
    captured = capture_words(["python", "train.py"], here)
    assert captured.project is not None
    assert set(captured.project.files) == {
        *("conf/0_base.yaml", "my-folder/2-fast/settings.yaml", "native.so", "pack/mod.py", "pyproject.toml"),
        *("shared/helper.py", "train.py"),
    }
    assert captured.project.links == {"alias": "pack", "loop": "."}
    tree = copy_of(captured, tmp_path / "job")
    assert not (tree / "shared").is_symlink()
    assert (tree / "alias").resolve() == tree / "pack"


def test_folders_that_link_to_each_other_end(project: Path, here: Here, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    write(first, a_dot_py="")
    write(second, b_dot_py="")
    (first / "other").symlink_to(second)
    (second / "other").symlink_to(first)
    (project / "first").symlink_to(first)
    captured = capture_words(["true"], here)
    assert captured.project is not None
    assert set(captured.project.files) == {"first/a.py", "pyproject.toml"}


def test_data_beside_code_is_linked_and_written_in_place(project: Path, here: Here, tmp_path: Path) -> None:
    write(
        project,
        train_dot_py="open('data/new', 'w').write('x'); open('own', 'w')",
        data__a_dot_bin="",
        b_dot_bin="",
    )
    captured = capture_words(["python", "train.py"], here)
    assert "Read and written in place: data/, b.bin." in captured.notes
    tree = copy_of(captured, tmp_path / "job")
    assert run_copy(captured, tmp_path / "job").returncode == 0
    assert (tree / "data").is_symlink()
    assert (tree / "b.bin").is_symlink()
    assert (project / "data" / "new").exists()
    assert (tree / "own").exists()
    assert not (project / "own").exists()


def test_two_jobs_of_a_folder_have_checkpoints_of_their_own(project: Path, here: Here, tmp_path: Path) -> None:
    write(project, train_dot_py="open('last.ckpt', 'a').write('x'); print(open('last.ckpt').read())")
    captured = capture_words(["python", "train.py"], here)
    assert run_copy(captured, tmp_path / "one").stdout == "x\n"
    assert run_copy(captured, tmp_path / "one").stdout == "xx\n"
    assert run_copy(captured, tmp_path / "two").stdout == "x\n"


def test_an_interrupted_copy_is_made_again(project: Path, here: Here, tmp_path: Path) -> None:
    write(project, train_dot_py="")
    captured = capture_words(["python", "train.py"], here)
    rest = tmp_path / "job" / "work" / ".springtide.new"
    rest.mkdir(parents=True)
    (rest / "train.py").write_text("half")
    tree = copy_of(captured, tmp_path / "job")
    assert (tree / "train.py").read_text() == ""
    assert not rest.exists()


def test_a_folder_with_very_many_settings_is_data(project: Path, here: Here, tmp_path: Path) -> None:
    write(project, train_dot_py="")
    for n in range(1100):
        write(project, **{f"annotations__{n}_dot_json": "{}", f"beside_{n}_dot_json": "{}"})
    captured = capture_words(["python", "train.py"], here)
    assert captured.project is not None
    assert set(captured.project.files) == {"train.py"}
    tree = copy_of(captured, tmp_path / "job")
    assert (tree / "annotations").is_symlink()
    assert (tree / "beside_7.json").read_text() == "{}"


def test_environments_caches_and_secrets_are_not_sent(project: Path, here: Here, tmp_path: Path) -> None:
    write(project, train_dot_py="", env__pyvenv_dot_cfg="", env__lib_dot_py="", node_modules__a_dot_js="")
    (project / "__pycache__").mkdir()
    (project / "__pycache__" / "a.py").write_text("")
    for name in (".env", "secrets.json", "kernel-1e46.json", "jpserver-12.json"):
        (project / name).write_text("secret")
    captured = capture_words(["python", "train.py"], here)
    assert captured.project is not None
    assert set(captured.project.files) == {"pyproject.toml", "train.py"}
    tree = copy_of(captured, tmp_path / "job")
    assert (tree / "env").is_symlink()
    assert (tree / ".env").is_symlink()
    assert not (tree / "__pycache__").exists()


# ---------- ignore files


def test_ignored_files_stay_in_place(project: Path, here: Here, tmp_path: Path) -> None:
    write(
        project, train_dot_py="", gen__a_dot_py="", gen__keep__b_dot_py="", sub__x_dot_json="", sub__y_dot_json=""
    )
    (project / ".gitignore").write_text("gen/\n")
    (project / "sub" / ".gitignore").write_text("x.json\n")
    (project / ".springtideignore").write_text("!gen/keep/\n")
    captured = capture_words(["python", "train.py"], here)
    assert captured.project is not None
    assert set(captured.project.files) == {
        *(".gitignore", "gen/keep/b.py", "pyproject.toml", "sub/.gitignore", "sub/y.json", "train.py"),
    }
    tree = copy_of(captured, tmp_path / "job")
    assert (tree / "gen" / "a.py").is_symlink()
    assert (tree / "sub" / "x.json").is_symlink()


@pytest.mark.parametrize("name", [".gitignore", ".springtideignore"])
@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfprivate/\n",
        b"\xef\xbb\xbf# private data\r\nprivate/\r\n",
        b"# Schl\xfcssel\nprivate/\n",
        b"private/\n" + b"/runs/tables/of/one/more/run/*.json\n" * 20_000,
    ],
    ids=["mark of byte order", "Windows", "comment in Latin-1", "700 kB"],
)
def test_ignore_files_of_all_editors_are_honoured(project: Path, name: str, content: bytes) -> None:
    write(project, train_dot_py="", private__keys_dot_py="SECRET = 1")
    (project / name).write_bytes(content)
    found = capture_project(project, project.parent)
    assert "private/keys.py" not in found.files
    assert "private/" in found.ignored


@pytest.mark.parametrize("name", [".gitignore", ".springtideignore"])
@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("private/\n".encode("utf-16"), "it is no text in UTF-8"),
        ("private/\n".encode("utf-16-be"), "it is no text in UTF-8"),
        ("ok/\nSchlüssel/\n".encode("latin-1"), "line 2 is not in UTF-8"),
        (b"private/\n" * 130_000, "it has 1.1 MiB, more than 1.0 MiB"),
    ],
    ids=["UTF-16", "UTF-16 without a mark", "Latin-1", "1.2 MB"],
)
def test_an_ignore_file_that_cannot_be_read_refuses_the_submission(
    project: Path, here: Here, name: str, content: bytes, fault: str
) -> None:
    write(project, train_dot_py="", lib__a_dot_py="", lib__private__keys_dot_py="SECRET = 1")
    for place in (project / name, project / "lib" / name):
        place.write_bytes(content)
        with pytest.raises(CaptureError) as refused:
            capture_words(["python", "train.py"], here)
        assert str(refused.value).startswith(f"The ignore file {place} cannot be read: {fault}. ")
        place.unlink()
    assert "lib/private/keys.py" in capture_project(project, project.parent).files


@pytest.mark.parametrize("name", [".gitignore", ".springtideignore"])
def test_an_ignore_file_that_is_closed_or_no_file_refuses_the_submission(open_place: Path, name: str) -> None:
    project = open_place / "study"
    write(project, train_dot_py="", pyproject_dot_toml="")
    (project / name).write_text("private/\n")
    (project / name).chmod(0)
    with unprivileged(), pytest.raises(CaptureError, match=r"Permission denied.*Make it readable for you"):
        capture_project(project, open_place)
    (project / name).unlink()
    os.mkfifo(project / name)
    with pytest.raises(CaptureError, match="it is no file"):
        capture_project(project, open_place)
    (project / name).unlink()
    (project / name).symlink_to("nowhere")
    assert "train.py" in capture_project(project, open_place).files


def test_the_script_of_the_command_is_sent_whatever_it_is(project: Path, here: Here, tmp_path: Path) -> None:
    (project / ".gitignore").write_text("*.py\n")
    write(project, train_dot_py="print('sent')")
    captured = capture_words(["python", "train.py"], here)
    write(project, train_dot_py="raise SystemExit(1)")
    assert run_copy(captured, tmp_path / "job").stdout == "sent\n"


# ---------- the root


def test_the_root_is_the_nearest_mark_below_the_home_directory(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "a" / "b" / "c").mkdir(parents=True)
    (home / ".git").mkdir()
    assert find_root(home / "a" / "b", home) is None
    (home / "a" / ".git").mkdir()
    assert find_root(home / "a" / "b" / "c", home) == home / "a"
    (home / "a" / "b" / "pyproject.toml").write_text("")
    assert find_root(home / "a" / "b" / "c", home) == home / "a" / "b"
    assert find_root(home, home) is None
    (home / ".springtideignore").write_text("")
    assert find_root(home, home) == home


def test_an_ignore_file_that_leaves_out_all_of_an_output_folder_marks_no_root(tmp_path: Path) -> None:
    home = tmp_path / "home"
    exported = home / "study" / "exported" / "wandb"
    exported.mkdir(parents=True)
    (home / "study" / "pyproject.toml").write_text("")
    for text in ("# Exported runs are no part of the project.\n*\n", "/*\n", "**"):
        (exported / ".springtideignore").write_text(text)
        assert find_root(exported, home) == home / "study"
    for text in ("", "*.json\n", "*\n!keep.py\n"):
        (exported / ".springtideignore").write_text(text)
        assert find_root(exported, home) == exported


def test_of_a_folder_that_all_share_only_its_own_files_and_packages_are_copied(tmp_path: Path) -> None:
    home, shared = tmp_path / "home", tmp_path / "shared"
    home.mkdir()
    for path in ("train.py", "package/__init__.py", "hers/fit.py", "hers/deep/more.py", ".git/HEAD"):
        (shared / path).parent.mkdir(parents=True, exist_ok=True)
        (shared / path).write_text("")
    (shared / "pyproject.toml").write_text("")
    assert "hers/fit.py" in capture_project(shared, home).files
    shared.chmod(0o1777)
    assert set(capture_project(shared, home).files) == {"train.py", "package/__init__.py", "pyproject.toml"}
    assert find_root(shared / "hers" / "deep", home) is None, "a mark that anybody may set there counts for nobody"
    captured = capture_words(["python", "hers/fit.py"], Here(shared, home=home))
    assert captured.project is not None
    hers = {path for path in captured.project.files if path.startswith("hers/")}
    assert (captured.project.root, hers) == (shared, {"hers/fit.py", "hers/deep/more.py"})
    (shared / ".springtideignore").write_text("")
    assert "hers/fit.py" in capture_project(shared, home).files


def test_of_an_unmarked_folder_of_another_person_only_its_own_files_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, hers = tmp_path / "home", tmp_path / "hers"
    for folder in (home, hers / "deep"):
        folder.mkdir(parents=True)
    (hers / "fit.py").write_text("")
    (hers / "deep" / "more.py").write_text("")
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    assert set(capture_project(hers, home).files) == {"fit.py", "deep/more.py"}, "home has the same owner"
    none = tmp_path / "no home"
    assert set(capture_project(hers, none).files) == {"fit.py"}
    (hers / "pyproject.toml").write_text("")
    assert "deep/more.py" in capture_project(hers, none).files


def test_of_a_home_directory_only_its_own_files_and_packages_are_copied(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for path in ("train.py", "pack/__init__.py", "other/project/x.py"):
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text("")
    captured = capture_words(["python", "train.py"], Here(home, home=home))
    assert captured.project is not None
    assert set(captured.project.files) == {"train.py", "pack/__init__.py"}


def test_a_script_below_the_home_directory_runs_in_a_copy_of_both(tmp_path: Path, project: Path) -> None:
    write(
        project, train_dot_py="import helper, os; print(helper.WORD, os.getcwd())", helper_dot_py="WORD = 'sent'"
    )
    home = project.parent
    captured = capture_words(["python", "study/train.py"], Here(home, home=home))
    write(project, helper_dot_py="WORD = 'live'")
    assert captured.argv[1] == "study/train.py"
    copy = str(tmp_path / "job" / "work" / "home")
    assert run_copy(captured, tmp_path / "job").stdout.split() == ["sent", copy]


# ---------- scripts outside of the project

OUTSIDE_TEXT = (
    "import helper, os, pathlib\n"
    "beside = pathlib.Path(__file__).parent\n"
    "read = [(beside / name).read_text() for name in ('conf.yaml', 'x.npy')]\n"
    "print(helper.WORD, *read, os.path.basename(__file__))\n"
    "pathlib.Path('made.txt').write_text('by the job')\n"
)


@pytest.mark.parametrize("word", ["{other}/fit.py", "../../other/fit.py", "../link/fit.py"])
def test_a_script_outside_of_the_project_is_copied_with_its_folder(
    project: Path, here: Here, tmp_path: Path, word: str
) -> None:
    other = tmp_path / "other"
    write(other, fit_dot_py=OUTSIDE_TEXT, helper_dot_py="WORD = 'sent'", conf_dot_yaml="sent", x_dot_npy="data")
    write(project, helper_dot_py="WORD = 'of the project'", conf_dot_yaml="project")
    (project.parent / "link").symlink_to(other)
    captured = capture_words(["python", word.format(other=other)], here)
    write(other, fit_dot_py="raise SystemExit('live')", helper_dot_py="WORD = 'live'", conf_dot_yaml="live")
    done = run_copy(captured, tmp_path / "job")
    assert done.stdout.split() == ["sent", "sent", "data", "fit.py"], done.stderr
    assert not (project / "made.txt").exists(), "the job works in its copy"
    assert (tmp_path / "job" / "work" / "study" / "made.txt").read_text() == "by the job"
    assert captured.notes[:3] == (
        f"The job runs in its own copy of {project}: 3 files (30 B).",
        f"It has a copy of {other} as well, for the script: 3 files (259 B).",
        f"Read and written in place: {other}/x.npy.",
    )


def test_a_script_that_is_a_link_out_of_the_project_finds_what_it_finds_in_the_notebook(
    project: Path, here: Here, tmp_path: Path
) -> None:
    shared = tmp_path / "home" / "shared"
    write(shared, real_dot_py=OUTSIDE_TEXT, helper_dot_py="WORD = 'sent'")
    write(project, helper_dot_py="WORD = 'never imported'", conf_dot_yaml="mine", x_dot_npy="data")
    (project / "train.py").symlink_to("../shared/real.py")
    in_notebook = subprocess.run(
        [sys.executable, "train.py"], cwd=project, capture_output=True, text=True, check=True
    ).stdout
    captured = capture_words(["python", "train.py"], here)
    write(shared, real_dot_py="raise SystemExit('live')", helper_dot_py="WORD = 'live'")
    write(project, conf_dot_yaml="live")
    done = run_copy(captured, tmp_path / "job")
    assert done.stdout == in_notebook == "sent mine data train.py\n", done.stderr
    assert captured.argv[1:] == ("train.py",)


def test_a_link_outside_to_a_script_elsewhere_leads_to_the_copy(project: Path, here: Here, tmp_path: Path) -> None:
    write(tmp_path / "lib", real_dot_py=OUTSIDE_TEXT, helper_dot_py="WORD = 'sent'")
    write(tmp_path / "tools", conf_dot_yaml="tools", x_dot_npy="data")
    (tmp_path / "tools" / "train.py").symlink_to(tmp_path / "lib" / "real.py")
    captured = capture_words(["python", f"{tmp_path}/tools/train.py"], here)
    write(tmp_path / "lib", real_dot_py="raise SystemExit('live')")
    done = run_copy(captured, tmp_path / "job")
    assert done.stdout == "sent tools data train.py\n", done.stderr


def test_a_program_outside_that_is_a_script_is_copied(project: Path, here: Here, tmp_path: Path) -> None:
    write(tmp_path / "other", launch="#!/bin/sh\necho sent\n", tool_dot_sh="#!/bin/sh\necho tool\n")
    for name in ("launch", "tool.sh"):
        (tmp_path / "other" / name).chmod(0o755)
    here = replace(here, variables={"PATH": os.environ["PATH"]})
    jobs = [capture_words([f"{tmp_path}/other/{name}"], here) for name in ("launch", "tool.sh")]
    write(tmp_path / "other", launch="#!/bin/sh\necho live\n", tool_dot_sh="#!/bin/sh\necho live\n")
    assert jobs[0].program.startswith("{project_tree}/")
    assert [run_copy(job, tmp_path / job.name).stdout for job in jobs] == ["sent\n", "tool\n"]


def test_installed_programs_are_read_in_place_and_named(project: Path, here: Here, tmp_path: Path) -> None:
    write(project, train_dot_py="")
    places = [tmp_path / "env" / "bin", tmp_path / "searched", tmp_path / "lib" / "site-packages" / "tool"]
    for place in places:
        write(place, run_dot_py="print('installed')")
    write(tmp_path / "env", pyvenv_dot_cfg="")
    here = replace(here, variables={"PATH": f"{tmp_path}/searched:{os.environ['PATH']}"})
    for place in places:
        captured = capture_words(["python", f"{place}/run.py", "train.py"], here)
        assert captured.project is not None
        assert (captured.argv[1], captured.project.outside) == (f"{place}/run.py", {})
        assert f"Read in place by its absolute path: {place}/run.py." in captured.notes


def test_one_project_around_both_is_copied_once(tmp_path: Path) -> None:
    home = tmp_path / "home"
    write(home / "all", pyproject_dot_toml="", tools__fit_dot_py="import os; print(os.getcwd())")
    write(home / "all", study__pyproject_dot_toml="", study__conf_dot_yaml="")
    captured = capture_words(["python", "../tools/fit.py"], Here(home / "all" / "study", home=home))
    assert captured.project is not None
    assert (captured.project.root, captured.project.outside) == (home / "all", {})
    assert run_copy(captured, tmp_path / "job").stdout == f"{tmp_path}/job/work/all/study\n"


def test_settings_beside_a_script_outside_are_those_of_the_copy(project: Path, here: Here, tmp_path: Path) -> None:
    write(tmp_path / "other", fit_dot_py="import sys; print(open(sys.argv[1][9:]).read())", a_dot_yaml="sent")
    write(tmp_path / "other", deep__x_dot_npy="data")
    for path in (f"{tmp_path}/other/a.yaml", "../../other/a.yaml"):
        captured = capture_words(["python", "../../other/fit.py", f"--config={path}"], here)
        write(tmp_path / "other", a_dot_yaml="live")
        assert run_copy(captured, tmp_path / f"job {len(path)}").stdout == "sent\n"
        write(tmp_path / "other", a_dot_yaml="sent")
    data = capture_words(["python", "../../other/fit.py", "--config=../../other/deep/x.npy"], here)
    assert run_copy(data, tmp_path / "with data").stdout == "data\n"
    assert not any("does not find" in note for note in data.notes)


def test_signs_of_checkpoints_are_read_in_a_script_outside(project: Path, here: Here, tmp_path: Path) -> None:
    write(tmp_path / "other", real_dot_py="import torch\ntorch.save(1, 'x.pt')\n")
    (project / "train.py").symlink_to("../../other/real.py")
    captured = capture_words(["python", "train.py"], here)
    assert f"{tmp_path}/other/real.py saves by torch.save" in str(pause_words(submission(captured, {}), captured))


def test_too_much_beside_a_script_outside_is_refused_with_the_line_for_its_ignore_file(
    project: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    write(other, fit_dot_py="", **{f"more__m{number}_dot_py": "" for number in range(9)})
    with pytest.raises(CaptureError) as refused:
        capture_project(project, project.parent, [other / "fit.py"], Caps(files=8))
    assert f"The project {project} with {other}, where the script is, has 11 files" in str(refused.value)
    assert f"once {other}/.springtideignore names them: add a line such as “/more/”" in str(refused.value)


def test_a_file_that_is_rewritten_meanwhile_is_sent_whole(project: Path, here: Here) -> None:
    content = "".join(f"x{number} = {number}\n" for number in range(20_000))
    helper, over = project / "helper.py", threading.Event()
    helper.write_text(content)
    (project / "train.py").write_text("import helper\n")

    def rewrite() -> None:
        while not over.wait(0.2):
            helper.write_text(content)

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        sent = [capture_words(["python", "train.py"], here) for _ in range(4)]
    finally:
        over.set()
        writer.join()
    contents = {each.project.files["helper.py"].content for each in sent if each.project is not None}
    assert contents == {content.encode()}


def test_a_file_that_never_settles_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, look, times = tmp_path / "busy.py", os.stat, itertools.count(1)
    path.write_text("x = 1")

    def changed(file: str) -> os.stat_result:
        path.write_text(f"x = {next(times)}")
        return look(file)

    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", changed)
        with pytest.raises(CaptureError, match=r"busy\.py changes while it is read"):
            sources.read(path)
    assert sources.read(path).startswith(b"x = ")


def test_a_file_that_grows_all_the_time_is_sent_as_far_as_it_was_read(project: Path, here: Here) -> None:
    (project / "train.py").write_text("")
    notes, over = project / "notes.txt", threading.Event()
    notes.write_text("begin\n")

    def write() -> None:
        with notes.open("a") as more:
            while not over.is_set() and more.tell() < 100_000_000:
                more.write(".")
                more.flush()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        sent = capture_words(["python", "train.py"], here)
    finally:
        over.set()
        writer.join()
    assert sent.project is not None
    assert sent.project.files["notes.txt"].content.startswith(b"begin\n")


def test_a_notebook_that_is_a_link_runs_where_it_is_opened(project: Path, here: Here, tmp_path: Path) -> None:
    notebook = '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}'
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "study.ipynb").write_text(notebook)
    (project / "mine.ipynb").symlink_to(tmp_path / "shared" / "study.ipynb")
    captured = capture_words(["mine.ipynb"], here)
    (tmp_path / "shared" / "study.ipynb").write_text("changed")
    assert captured.cwd == str(project)
    assert captured.argv[-1] == "{project_tree}/mine.ipynb"
    assert (copy_of(captured, tmp_path / "job") / "mine.ipynb").read_text() == notebook


def test_absolute_paths_of_copied_files_lead_to_the_copies(project: Path, here: Here) -> None:
    write(project, train_dot_py="", conf__a_dot_yaml="", data__x_dot_npy="")
    words = [
        "python",
        f"{project}/train.py",
        f"--config={project}/conf/a.yaml",
        f"{project}/data/x.npy",
        "/etc/hosts",
    ]
    captured = capture_words(words, here)
    assert captured.argv[1:] == (
        "{project_tree}/train.py",
        "--config={project_tree}/conf/a.yaml",
        f"{project}/data/x.npy",
        "/etc/hosts",
    )
    assert f"Read in place by its absolute path: {project}/data/x.npy." in captured.notes


def test_a_relative_path_to_data_beside_the_project_is_named_with_the_path_to_give(project: Path) -> None:
    home = project.parent
    write(home, data__x_dot_npy="", data__y_dot_npy="")
    write(project, code__train_dot_py="", inner__z_dot_npy="")
    words = ["python", "train.py", "--in", "../inner/z.npy", "--new", "../../nowhere.npy", f"{home}/data/x.npy"]
    below = Here(project / "code", home=home)
    assert not any("outside" in note for note in capture_words(words, below).notes)
    found = capture_words([*words, "--data=../../data/x.npy", "more=./../../data/y.npy"], below)
    assert found.notes[-1] == (
        "../../data/x.npy and ./../../data/y.npy lie outside of the project: the job, which runs in a copy of it, "
        f"does not find them there. Give the absolute paths: {home}/data/x.npy and {home}/data/y.npy."
    )
    in_place = capture_words(["cat", "../data/x.npy"], Here(project, home=home, in_place=True))
    assert not any("outside" in note for note in in_place.notes)


def test_modules_of_the_search_path_in_the_project_are_those_of_the_copy(
    project: Path, here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, src__own__mod_dot_py="WORD = 'sent'", train_dot_py="from own.mod import WORD; print(WORD)")
    monkeypatch.syspath_prepend(project / "src")
    captured = capture_words(["python", "train.py"], here)
    write(project, src__own__mod_dot_py="WORD = 'live'")
    assert captured.env == {"PYTHONPATH": "{project_tree}/src"}
    assert run_copy(captured, tmp_path / "job").stdout == "sent\n"
    request = submission(captured, {"env": {"PYTHONPATH": f"{project}/src:/opt"}})
    assert request.env == {"PYTHONPATH": "{project_tree}/src:/opt:{project_tree}/src"}


# ---------- Git


WHO = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always")


def git(place: Path, *words: str) -> str:
    done = subprocess.run(["git", *WHO, *words], cwd=place, check=True, capture_output=True, text=True)
    assert not done.stderr, done.stderr
    return done.stdout.rstrip()


def commit_all(place: Path, message: str = "first") -> str:
    """Commit all files of a folder, which becomes a repository; return the commit."""
    if not (place / ".git").exists():
        git(place, "init", "-q", "-b", "main")
    git(place, "add", "-A")
    git(place, "commit", "-qm", message)
    return git(place, "rev-parse", "HEAD")


def tracked_project(project: Path) -> None:
    """Write a project of which most tracked files are links in a copy."""
    write(
        project, train_dot_py="", _dot_gitignore="/scratch/\n/weights dir/\n", _dot_gitattributes="*.npy binary\n"
    )
    write(project, _dot_pre_commit_config_dot_yaml="", _dot_github__ci_dot_yml="", lib__a_dot_py="")
    write(
        project,
        data__a_dot_npy="data",
        data__more__b_dot_npy="data",
        lib__table_dot_npy="data",
        big_dot_npy="data",
    )
    write(project, kept___dot_gitignore="*\n!.gitignore\n", scratch__x_dot_npy="ignored")
    (project / "weights dir").mkdir()
    (project / "weights dir" / "x.npy").write_text("ignored")
    (project / "latest").symlink_to("./lib/../lib")
    (project / "lib" / "run").write_text("#!/bin/sh\n")
    (project / "lib" / "run").chmod(0o755)


def answers(place: Path) -> dict[str, str]:
    """Return what Git answers about the changes of a working tree."""
    asked = ("status --porcelain", "diff --stat", "diff HEAD --stat", "describe --always --dirty --abbrev=40")
    return {words: git(place, *words.split()) for words in asked}


def test_git_in_the_job_knows_the_commit_and_leaves_the_repository_alone(
    project: Path, here: Here, tmp_path: Path
) -> None:
    write(project, train_dot_py="")
    commit = commit_all(project)
    captured = capture_words(["python", "train.py"], here)
    write(project, train_dot_py="later")
    later = commit_all(project, "second")
    tree = copy_of(captured, tmp_path / "job")
    assert git(tree, "rev-parse", "HEAD") == commit
    assert git(tree, "status", "--porcelain") == ""
    assert git(tree, "log", "--format=%s", "main") == "second\nfirst"
    git(tree, "commit", "-q", "--allow-empty", "-m", "of the job")
    git(tree, "branch", "-f", "main")
    git(tree, "tag", "of-the-job")
    git(tree, "config", "user.name", "job")
    assert git(project, "rev-parse", "HEAD") == later
    assert git(project, "status", "--porcelain") == ""
    assert git(project, "tag") == ""
    assert git(project, "fsck", "--unreachable") == ""


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_a_clean_checkout_is_clean_in_the_job(project: Path, here: Here, tmp_path: Path, version: str) -> None:
    tracked_project(project)
    commit = commit_all(project)
    git(project, "update-index", "--index-version", version)
    if version == "3":
        write(project, new_dot_py="")
        git(project, "add", "--intent-to-add", "new.py")
        git(project, "rm", "-q", "--cached", "new.py")
        (project / "new.py").unlink()
    tree = copy_of(capture_words(["python", "train.py"], here), tmp_path / "job")
    assert (tree / "data").is_symlink()
    assert (tree / "scratch").is_symlink()
    assert (tree / ".github").is_symlink()
    assert answers(tree) == dict.fromkeys(answers(tree), "") | {"describe --always --dirty --abbrev=40": commit}
    git(tree, "diff", "--quiet")
    assert git(tree, "ls-files") == git(project, "ls-files")
    assert git(tree, "check-ignore", "scratch", "kept/x") == "scratch\nkept/x"


def test_changes_at_the_submission_are_changes_in_the_job(project: Path, here: Here, tmp_path: Path) -> None:
    tracked_project(project)
    commit_all(project)
    write(project, train_dot_py="changed", lib__staged_dot_py="", lib__new_dot_py="", big_dot_npy="changed")
    git(project, "add", "lib/staged.py")
    (project / "lib" / "a.py").unlink()
    (project / "data" / "a.npy").unlink()
    before = answers(project)
    captured = capture_words(["python", "train.py"], here)
    commit_all(project, "after the submission")
    tree = copy_of(captured, tmp_path / "job")
    changes = git(tree, "status", "--porcelain").splitlines()
    assert [line.replace(" T ", " M ") for line in changes] == before["status --porcelain"].splitlines()
    assert " D data/a.npy" in changes
    assert " T big.npy" in changes
    assert git(tree, "diff", "train.py").endswith("+changed\n\\ No newline at end of file")


def test_what_a_job_changes_in_its_copy_shows(project: Path, here: Here, tmp_path: Path) -> None:
    tracked_project(project)
    commit_all(project)
    tree = copy_of(capture_words(["python", "train.py"], here), tmp_path / "job")
    write(tree, train_dot_py="job", result_dot_txt="job")
    assert git(tree, "status", "--porcelain") == " M train.py\n?? result.txt"
    git(tree, "commit", "-qam", "of the job")
    assert git(tree, "show", "--stat", "--format=").split()[0] == "train.py"
    assert git(project, "log", "--all", "--format=%s") == "first"


def test_files_that_only_look_changed_are_compared(project: Path, here: Here, tmp_path: Path) -> None:
    write(project, train_dot_py="", big_dot_npy="data", other_dot_npy="data")
    (project / "link.npy").symlink_to("./big.npy")
    commit_all(project)
    for name in ("big.npy", "link.npy"):
        os.utime(project / name, (0, 0), follow_symlinks=False)
    about = (project / "other.npy").stat()
    (project / "other.npy").write_text("late")
    os.utime(project / "other.npy", ns=(about.st_atime_ns, about.st_mtime_ns))
    os.utime(project / ".git" / "index", ns=(about.st_atime_ns, about.st_mtime_ns))
    tree = copy_of(capture_words(["python", "train.py"], here), tmp_path / "job")
    assert git(tree, "status", "--porcelain") == " T other.npy"


def test_git_in_a_worktree_and_in_a_shallow_clone(project: Path, here: Here, tmp_path: Path) -> None:
    tracked_project(project)
    commit_all(project)
    write(project, train_dot_py="second")
    commit = commit_all(project, "second")
    other, shallow = project.parent / "other", project.parent / "shallow"
    git(project, "worktree", "add", "-q", "--detach", str(other))
    git(project, "clone", "-q", "--depth", "1", f"file://{project}", str(shallow))
    for place in (other, shallow):
        captured = capture_words(["python", "train.py"], replace(here, cwd=place))
        tree = copy_of(captured, tmp_path / place.name)
        assert answers(tree) == answers(place)
        assert git(tree, "rev-parse", "HEAD") == commit
        assert git(tree, "log", "--format=%s") == git(place, "log", "--format=%s")


def test_a_sparse_checkout_and_a_repository_of_sha256_are_clean(project: Path, here: Here, tmp_path: Path) -> None:
    git(project, "init", "-q", "-b", "main", "--object-format=sha256")
    tracked_project(project)
    write(project, left__out_dot_py="")
    commit_all(project)
    git(project, "sparse-checkout", "set", "--cone", "--sparse-index", "lib", "data", "kept", ".github")
    assert not (project / "left").exists()
    tree = copy_of(capture_words(["python", "train.py"], here), tmp_path / "job")
    assert (tree / "big.npy").is_symlink()
    assert answers(tree) == answers(project)


def test_git_in_a_submodule_knows_the_commit_of_the_submodule(project: Path, here: Here, tmp_path: Path) -> None:
    library, data = project.parent / "library", project.parent / "tables"
    write(library, lib_dot_py="", big_dot_npy="data")
    write(data, x_dot_npy="data")
    commits = commit_all(library, "of the library"), commit_all(data, "of the data")
    write(project, train_dot_py="")
    commit_all(project)
    git(project, "submodule", "--quiet", "add", str(library), "parts/sub")
    git(project, "submodule", "--quiet", "add", str(data), "tables")
    commit_all(project, "with submodules")
    write(project / "vendored", own_dot_py="")
    (project / "vendored" / ".gitignore").write_text("")
    vendored = commit_all(project / "vendored", "of the vendored")
    captured = capture_words(["python", "train.py"], here)
    tree = copy_of(captured, tmp_path / "job")
    for place, commit in (("parts/sub", commits[0]), ("tables", commits[1]), ("vendored", vendored)):
        assert git(tree / place, "rev-parse", "HEAD") == commit
        assert git(tree / place, "status", "--porcelain") == ""
    assert (tree / "tables").is_symlink()
    assert git(tree / "parts" / "sub", "rev-parse", "--show-toplevel") == str(tree / "parts" / "sub")
    assert f" {commits[0]} parts/sub (heads/main)" in git(tree, "submodule", "status", "parts/sub")
    assert git(tree, "status", "--porcelain") == git(project, "status", "--porcelain") == "?? vendored/"
    write(tree / "parts" / "sub", lib_dot_py="job")
    git(tree / "parts" / "sub", "commit", "-qam", "of the job")
    assert git(project, "status", "--porcelain") == "?? vendored/"


def test_git_beside_a_script_outside_knows_the_commit_of_its_repository(
    project: Path, here: Here, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    for place in (project, other):
        write(place, fit_dot_py="", data__x_dot_npy=str(place))
        git(place, "init", "-q")
        git(place, "add", ".")
        git(place, "commit", "-q", "-m", str(place))
    copy = copy_of(capture_words(["python", f"{other}/fit.py"], here), tmp_path / "job")
    beside = copy / f".outside{other}"
    for place, own in ((copy, project), (beside, other)):
        assert git(place, "rev-parse", "HEAD") == git(own, "rev-parse", "HEAD")
        assert git(place, "status", "--porcelain") == ""


def test_a_submission_needs_no_git(
    project: Path, here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracked_project(project)
    commit = commit_all(project)
    with monkeypatch.context() as without:
        without.setenv("PATH", str(tmp_path))
        tree = copy_of(capture_words([sys.executable, "train.py"], here), tmp_path / "job")
    assert git(tree, "describe", "--always", "--dirty", "--abbrev=40") == commit


def test_an_index_that_cannot_be_read_is_no_trouble(project: Path, here: Here, tmp_path: Path) -> None:
    write(project, train_dot_py="")
    commit = commit_all(project)
    whole = (project / ".git" / "index").read_bytes()
    for number, content in enumerate((b"", b"DIRC", whole[:40], whole[:8] + b"\xff" * 4 + whole[12:], b"\0" * 90)):
        (project / ".git" / "index").write_bytes(content)
        tree = copy_of(capture_words(["python", "train.py"], here), tmp_path / str(number))
        assert git(tree, "rev-parse", "HEAD") == commit


# ---------- limits


def test_one_generated_module_of_20_mb_is_sent(project: Path, here: Here) -> None:
    (project / "table.py").write_bytes(b"#" * 20_000_000)
    captured = capture_words(["true"], here)
    assert captured.project is not None
    assert "table.py" in captured.project.files


def test_a_file_beyond_the_limit_is_read_in_place_and_named(project: Path) -> None:
    (project / "table.py").write_bytes(b"#" * 2000)
    captured = capture_project(project, project.parent, caps=Caps(file_bytes=1000))
    assert "table.py" not in captured.files
    assert "table.py" in captured.linked
    assert any("table.py" in note for note in captured.notes())


def test_too_much_code_is_refused_with_the_largest_folders_and_a_line_for_the_ignore_file(project: Path) -> None:
    for n in range(30):
        write(project, **{f"generated__{n}_dot_py": "", f"app__{n % 3}_dot_py": ""})
    with pytest.raises(CaptureError, match=r"Most are in generated \(30 files.*“/generated/”"):
        capture_project(project, project.parent, caps=Caps(files=20))
    (project / ".springtideignore").write_text("/generated/\n")
    assert len(capture_project(project, project.parent, caps=Caps(files=20)).files) == 4


def test_empty_folders_and_links_count_among_the_files_of_a_project(project: Path) -> None:
    for n in range(20):
        (project / "runs" / "empty" / str(n)).mkdir(parents=True)
    write(project, app__main_dot_py="")
    number = len(capture_project(project, project.parent).empty)
    assert number >= 20
    with pytest.raises(CaptureError, match=r"Most are in .*“/runs/empty/”"):
        capture_project(project, project.parent, caps=Caps(files=number))


def test_names_that_are_no_text_stay_in_place(project: Path, here: Here, tmp_path: Path) -> None:
    (project / "two\nlines.py").write_text("")
    Path(os.fsdecode(os.fsencode(project) + b"/\xff.py")).write_text("")
    captured = capture_words(["true"], here)
    assert captured.project is not None
    assert set(captured.project.files) == {"pyproject.toml", "two\nlines.py"}
    tree = copy_of(captured, tmp_path / "job")
    assert len(list(tree.iterdir())) == 3


def test_a_word_that_is_no_text_is_refused_in_a_sentence(project: Path, here: Here) -> None:
    Path(os.fsdecode(os.fsencode(project) + b"/caf\xe9.py")).write_text("")
    with pytest.raises(CaptureError, match="no UTF-8"):
        capture_words(["python", os.fsdecode(b"caf\xe9.py")], here)


def test_a_script_that_is_no_plain_file_is_said_to_be_there(project: Path, here: Here) -> None:
    os.mkfifo(project / "pipe.py")
    with pytest.raises(CaptureError, match=r"pipe\.py is no plain file\. Give its path"):
        capture_words(["python", "pipe.py"], here)
    (project / "gone.py").symlink_to("nowhere.py")
    with pytest.raises(CaptureError, match=r"gone\.py is a link that leads to nothing\. Give its path"):
        capture_words(["python", "gone.py"], here)


def test_the_file_that_names_data_is_no_data_itself(project: Path, here: Here) -> None:
    (project / ".springtideignore").write_text("big/\n")
    captured = capture_words(["true"], here)
    assert not [note for note in captured.notes if ".springtideignore" in note]


def test_links_that_nobody_may_read_are_no_trouble(
    project: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, main_dot_py="")
    (project / "root").symlink_to("/")
    (project / "closed").symlink_to(project / "main.py")
    read = os.readlink

    def closed(path: os.PathLike[str] | str, **more: int) -> str:
        if os.fspath(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return str(read(path, **more))

    monkeypatch.setattr(os, "readlink", closed)
    captured = capture_words(["python", "main.py"], here)
    assert captured.project is not None
    assert set(captured.project.files) == {"pyproject.toml", "main.py"}


def test_ignored_modules_beside_the_program_are_not_missing(project: Path, here: Here) -> None:
    write(project, _dot_gitignore="*\n", pkg__ns_dot_py="import pkg.other, helper", helper_dot_py="")
    assert not capture_words(["python", "-m", "pkg.ns"], here).imports.all & {"pkg", "pkg.ns", "helper"}


# ---------- in place


def test_a_job_in_place_has_no_copy_and_the_note_says_so(project: Path) -> None:
    write(project, train_dot_py="")
    captured = capture_words(["python", "train.py"], Here(project, in_place=True, home=project.parent))
    assert captured.project is None
    assert captured.argv == (sys.executable, "train.py")
    assert captured.notes == (f"The job runs in {project} itself: it reads the files as they are when it runs.",)
    assert submission(captured, {"in_place": True}).tree is None


@pytest.mark.parametrize(
    ("argv", "name"),
    [(["python", "scripts/train.py"], "train.py"), (["python", "-m", "study.train"], "study/train.py")],
)
def test_the_python_of_a_job_in_place_is_read_for_signs_of_checkpoints(
    project: Path, argv: list[str], name: str
) -> None:
    write(project, scripts__train_dot_py="import saving", scripts__saving_dot_py="add('--resume')")
    write(project, study____init___dot_py="", study__train_dot_py="from . import saving")
    write(project, study__saving_dot_py="add('--resume')")
    captured = capture_words(argv, Here(project, in_place=True, home=project.parent))
    assert not captured.files
    asked = submission(captured, {"in_place": True, "gpus": 1})
    assert pause_words(asked, captured).startswith(f"{name} knows --resume: name its arguments in")


def test_a_job_in_place_sends_nothing_that_an_ignore_file_leaves_out(project: Path) -> None:
    write(project, train_dot_py="")
    (project / ".springtideignore").write_bytes("private/\n".encode("utf-16"))
    captured = capture_words(["python", "train.py"], Here(project, in_place=True, home=project.parent))
    assert captured.project is None


def test_a_program_that_is_not_there_stays_as_it_was_typed(project: Path) -> None:
    write(project, data__x_dot_csv="1")
    here = Here(project, variables={"PATH": "/usr/bin"}, home=project.parent)
    for typed in (project, project / "data", project / "data/x.csv"):
        captured = capture_words([str(typed)], here)
        assert (captured.argv, captured.program) == ((str(typed),), "")


def test_checkpoints_of_pytorch_are_data_whatever_their_number(project: Path) -> None:
    for number in range(3):
        (project / f"epoch{number}.pth").write_bytes(b"\x80" * 2000)
        (project / f"epoch{number}.pt").write_bytes(b"\x80" * 2000)
    write(project, train_dot_py="pass")
    captured = capture_project(project, project.parent, caps=Caps(bytes=5000))
    assert set(captured.files) == {"train.py", "pyproject.toml"}


@pytest.mark.timeout(20)
def test_special_files_are_never_opened_in_the_project_or_behind_its_links(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "lib.py").write_text("WORD = 'tide'")
    for folder in (project, outside):
        os.mkfifo(folder / "control")
    (project / "lib").symlink_to(outside)
    (project / "devices").symlink_to("/dev")
    captured = capture_project(project, project.parent)
    own = {name for name in captured.files if not name.startswith("devices/shm/")}  # other programs may have some
    assert own == {"pyproject.toml", "lib/lib.py"}


def test_a_link_to_the_project_itself_leads_to_the_copy(project: Path, here: Here, tmp_path: Path) -> None:
    (project / "loop").symlink_to(".")
    write(project, train_dot_py="import pathlib; print(pathlib.Path('loop').resolve() == pathlib.Path.cwd())")
    captured = capture_words(["python", "train.py"], here)
    assert run_copy(captured, tmp_path / "job").stdout == "True\n"


# ---------- what people find in real folders


@contextmanager
def unprivileged() -> Iterator[None]:
    """Be an account to which folders can be closed."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A directory that every account may enter."""
    with tempfile.TemporaryDirectory(prefix="springtide-open-") as made:
        place = Path(made)
        place.chmod(0o755)
        yield place


def test_closed_folders_and_links_behind_them_are_no_trouble(open_place: Path) -> None:
    project, closed = open_place / "study", open_place / "closed"
    write(project, train_dot_py="", pyproject_dot_toml="", pgdata__PG_VERSION="15")
    write(closed, data__x_dot_csv="1")
    (project / "to_data").symlink_to(closed / "data")
    (project / "to_closed").symlink_to(closed)
    for folder in (closed, project / "pgdata"):
        folder.chmod(0)
        if os.geteuid() == 0:
            os.chown(folder, 1, 1)
    with unprivileged():
        found = capture_project(project, open_place)
    assert set(found.files) == {"train.py", "pyproject.toml"}
    assert {"pgdata/"} <= set(found.linked)
    for folder in (closed, project / "pgdata"):
        folder.chmod(0o755)


@pytest.mark.parametrize("line", ["\\", "foo\\", "!", "[z-a]"])
def test_lines_that_are_no_patterns_ignore_nothing(project: Path, line: str) -> None:
    write(project, train_dot_py="", vendored__a_dot_py="", vendored__b_dot_py="")
    (project / "vendored" / ".gitignore").write_text(f"a.py\n{line}\n")
    assert {"train.py", "vendored/b.py"} <= set(capture_project(project, project.parent).files)
    assert "vendored/a.py" not in capture_project(project, project.parent).files


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_ignore_files_are_read_as_editors_write_them(project: Path, encoding: str) -> None:
    write(project, train_dot_py="", vendored__a_dot_py="", vendored__b_dot_py="")
    (project / "vendored" / ".springtideignore").write_text("a.py\n", encoding=encoding)
    kept = set(capture_project(project, project.parent).files)
    assert ("vendored/a.py" in kept, "vendored/b.py" in kept) == (False, True)


def test_names_with_control_characters_are_shown_escaped(project: Path) -> None:
    write(project, train_dot_py="")
    (project / "big\x1b[2Jdata").mkdir()
    (project / "big\x1b[2Jdata" / "x.npy").write_bytes(b"data")
    assert "big\\x1b[2Jdata/" in capture_project(project, project.parent).described().linked


def test_a_module_below_src_is_the_program(project: Path, here: Here) -> None:
    write(project, src__seafit__train_dot_py="import numpy\nfrom springtide.training import current_job")
    write(project, src__seafit____init___dot_py="")
    captured = capture_words(["python", "-m", "seafit.train"], here)
    assert captured.name == "train"
    asked = submission(captured, {"gpus": 1})
    assert "springtide.training" in pause_words(asked, captured)


def test_an_empty_folder_is_the_jobs_own(project: Path, here: Here, tmp_path: Path) -> None:
    write(project, train_dot_py="", tables___dot_gitkeep="", runs__first___dot_gitkeep="", data__x_dot_npy="data")
    write(project, _dot_gitignore="tables/*\n")
    copy = copy_of(capture_words(["python", "train.py"], here), tmp_path / "job")
    for folder in ("tables", "runs/first"):
        (copy / folder / "last.ckpt").write_text("the job's")
        assert not (project / folder / "last.ckpt").exists()
    assert (copy / "data").is_symlink()
    assert capture_project(project, project.parent).linked == ("data/",)


def test_a_checkpoint_in_a_folder_that_jobs_share_is_named(project: Path, here: Here) -> None:
    write(project, train_dot_py="", tables__old_dot_npy="data")
    captured = capture_words(["python", "train.py"], here)
    asked = submission(captured, {"gpus": 1, "resume": "--resume tables/checkpoint.pkl", "outputs": ["new/*"]})
    assert any(note.startswith("tables/ is written in place, so all jobs") for note in notes_of(captured, asked))
    (project / "scripts").mkdir()
    below = capture_words(["python", "../train.py"], replace(here, cwd=project / "scripts"))
    asked = submission(below, {"gpus": 1, "resume": "--resume tables/checkpoint.pkl"})
    assert notes_of(below, asked) == below.notes  # that is another folder
    alone = submission(captured, {"gpus": 1, "resume": "--resume new/checkpoint.pkl"})
    assert notes_of(captured, alone) == captured.notes


def test_files_beside_a_missing_one_are_named_on_one_line(project: Path, here: Here) -> None:
    write(project, a_dot_py="", **{"b\nc_dot_py": ""})
    (project / "d.py").mkdir()
    with pytest.raises(CaptureError) as refused:
        capture_words(["python", "train.py"], here)
    assert str(refused.value).endswith(
        f"{project} has “a.py” and “b\\nc.py”. Give its path from the working directory."
    )
