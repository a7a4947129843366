"""What a command means at the place of its submission: as a shell there would run it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from springtide.scheduler.capture import (
    CaptureError,
    Here,
    capture_words,
    elsewhere,
    kernel_place,
    submission,
    terminal_place,
)
from springtide.scheduler.capture.place import environment_variables, search_path
from springtide.scheduler.capture.program import program_of, split_command
from springtide.scheduler.capture.variables import activation, carried, uncarried
from springtide.scheduler.wire import MAX_VARIABLE


def program(path: Path, text: str = "#!/bin/sh\n") -> str:
    """Write an executable file; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def here(tmp_path: Path) -> Here:
    """A terminal in an empty directory, in which an environment with Python and torchrun is activated."""
    python = program(tmp_path / "venv" / "bin" / "python")
    program(tmp_path / "venv" / "bin" / "python3")
    program(tmp_path / "venv" / "bin" / "torchrun", f"#!{python}\n")
    (tmp_path / "work").mkdir()
    return terminal_place(tmp_path / "work", {"PATH": f"{tmp_path}/venv/bin:/usr/bin:/bin"})


def bin_of(here: Here) -> str:
    return here.variables["PATH"].split(":")[0]


# ---------- programs


@pytest.mark.parametrize("word", ["python", "python3", "torchrun"])
def test_a_program_is_the_first_one_of_the_path(here: Here, word: str) -> None:
    found = program_of([word, "train"], here)
    assert (found.words, found.path) == ((word, "train"), f"{bin_of(here)}/{word}")


def test_a_program_that_is_not_there_has_no_path(here: Here) -> None:
    assert program_of(["accelerate", "launch"], here).path == ""
    assert program_of(["./missing"], here).path == ""


def test_a_relative_program_is_that_of_the_working_directory_with_its_links(here: Here) -> None:
    (here.cwd / "env" / "bin").mkdir(parents=True)
    (here.cwd / "env" / "bin" / "python").symlink_to(sys.executable)
    assert program_of(["env/bin/python", "-c", ""], here).path == f"{here.cwd}/env/bin/python"


def test_python_is_python3_where_there_is_no_other_and_a_note_says_so(tmp_path: Path) -> None:
    only = program(tmp_path / "bin" / "python3")
    found = program_of(["python", "-V"], terminal_place(tmp_path, {"PATH": str(tmp_path / "bin")}))
    assert found.path == only
    assert found.notes == (f"There is no python on your PATH; {only} is used.",)


def test_in_a_kernel_python_is_its_interpreter_whatever_its_servers_path_says(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "python")
    here = kernel_place(tmp_path, environ={"PATH": str(tmp_path / "bin")})
    assert program_of(["python", "-V"], here).path == sys.executable
    assert program_of(["python3", "-V"], here).path == sys.executable
    assert here.variables["PATH"].split(":") == [str(Path(sys.executable).parent), str(tmp_path / "bin")]


def test_conda_is_found_where_it_is_a_function_of_the_shell(tmp_path: Path) -> None:
    conda = program(tmp_path / "conda" / "bin" / "conda")
    here = terminal_place(tmp_path, {"PATH": "/bin", "CONDA_EXE": conda})
    assert program_of(["conda", "run", "-n", "x", "python"], here).path == conda


def test_at_another_place_words_stay_as_they_are(tmp_path: Path) -> None:
    found = program_of(["python", "-V"], Here(tmp_path, "/opt/venv/bin/python"))
    assert (found.words, found.path) == (("/opt/venv/bin/python", "-V"), "")


def test_a_place_on_another_machine_gives_a_job_what_it_carries_and_nothing_else(tmp_path: Path) -> None:
    here = elsewhere(tmp_path, "python3", {"PATH": "/bin", "HF_HOME": "/hf", "VIRTUAL_ENV": "/venv"})
    request = submission(capture_words(["python", "-V"], here), {"carry": ("HF_HOME",)}, here=here)
    assert (request.argv, request.env, request.environment) == (["python3", "-V"], {"HF_HOME": "/hf"}, None)
    assert uncarried(here, []) == []


# ---------- scripts


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("#!/bin/sh", ("/bin/sh",)),
        ("#!/usr/bin/env python", ("python",)),
        ("#!/usr/bin/env -S uv run --script", ("uv", "run", "--script")),
        ("#!/usr/bin/python3 -u", ("/usr/bin/python3", "-u")),
    ],
)
def test_a_script_runs_as_its_first_line_says(here: Here, first: str, words: tuple[str, ...]) -> None:
    program(here.cwd / "prog", f"{first}\n")
    found = program_of(["./prog", "3"], here)
    assert found.words == (*words, "./prog", "3")
    captured = capture_words(["./prog", "3"], here)
    assert captured.argv == (*words, "./prog", "3")
    assert captured.source == "./prog 3"


def test_another_executable_runs_where_it_is(here: Here) -> None:
    (here.cwd / "prog").write_bytes(b"\x7fELF")
    (here.cwd / "prog").chmod(0o755)
    captured = capture_words(["./prog"], here)
    assert (captured.argv, captured.program) == (("./prog",), str(here.cwd / "prog"))


def test_the_text_of_a_shell_is_no_script(here: Here) -> None:
    captured = capture_words(["bash", "-c", "python train.py"], here)
    assert (captured.argv[-1], captured.files) == ("python train.py", {})


@pytest.mark.parametrize(
    "command",
    [
        "torchrun --nproc-per-node 2 train.py",
        "env -u A python train.py",
        "uv run train.py",
        "conda run python train.py",
    ],
)
def test_the_script_of_any_launcher_is_captured(here: Here, command: str) -> None:
    (here.cwd / "train.py").write_text("")
    captured = capture_words(split_command(command, here.cwd), here)
    assert captured.argv[-1] == "train.py"


def test_a_module_of_the_working_directory_is_captured(here: Here) -> None:
    (here.cwd / "pack.py").write_text("")
    captured = capture_words(["python", "-m", "pack"], here)
    assert captured.argv == ("python", "-m", "pack")
    assert captured.name == "pack"
    assert captured.project is not None
    assert "pack.py" in captured.project.files


# ---------- variables before a program


def test_variables_before_a_program_are_those_of_the_job(here: Here) -> None:
    captured = capture_words(["A=1", "B=x=y", "python", "-c", "pass"], here)
    assert (captured.argv, captured.env) == (("python", "-c", "pass"), {"A": "1", "B": "x=y"})
    assert captured.name == "python"
    assert capture_words(["env", "A=1", "python", "-V"], here).env == {"A": "1"}
    assert capture_words(["env", "-i", "A=1", "python"], here).argv == ("env", "-i", "A=1", "python")


def test_values_of_variables_are_in_no_text_of_the_job(here: Here) -> None:
    request = submission(capture_words(["TOKEN=hunter2", "python", "-V"], here), {}, here=here)
    assert request.env == {"TOKEN": "hunter2"}
    assert "hunter2" not in f"{request.source} {request.argv} {request.name} {request.environment}"


def test_the_option_env_comes_after_variables_of_the_command(here: Here) -> None:
    assert submission(capture_words(["A=1", "python"], here), {"env": {"A": "2"}}, here=here).env == {"A": "2"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["1A=2", "python"], "“1A” cannot be the name of an environment variable"),
        (["A B=2", "python"], "“A B” cannot be the name"),
        (["=2", "python"], "“” cannot be the name"),
        (["A=1", "B=2"], r"variables alone \(A and B\)"),
    ],
)
def test_a_wrong_variable_is_refused(here: Here, words: list[str], message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        program_of(words, here)


def test_the_pool_chooses_the_gpus(here: Here) -> None:
    captured = capture_words(["CUDA_VISIBLE_DEVICES=0", "A=1", "python"], here)
    assert captured.env == {"A": "1"}
    assert captured.notes == (
        "CUDA_VISIBLE_DEVICES was left out: the pool chooses the GPUs of a job, and its option gpus their number.",
    )


# ---------- names with spaces


def test_a_text_that_is_a_file_is_that_file(tmp_path: Path) -> None:
    for name in ("my study.ipynb", "it's.py"):
        (tmp_path / name).write_text("")
        assert split_command(f" {name} ", tmp_path) == [name]


def test_a_name_that_its_spaces_divide_is_refused_with_the_quotes(tmp_path: Path) -> None:
    (tmp_path / "my train.py").write_text("")
    with pytest.raises(CaptureError, match=r"“my train.py” is one file.*: python 'my train.py' --lr 1"):
        split_command("python my train.py --lr 1", tmp_path)
    assert split_command("python 'my train.py'", tmp_path) == ["python", "my train.py"]


def test_words_that_are_files_themselves_are_not_joined(tmp_path: Path) -> None:
    for name in ("a", "a b"):
        (tmp_path / name).write_text("")
    assert split_command("cat a b", tmp_path) == ["cat", "a", "b"]


@pytest.mark.parametrize("text", ["x " * 50_000, "/" * 10_000, "x" * 5_000, "a\0b c"])
def test_a_text_that_no_file_can_have_as_its_name_is_a_command(tmp_path: Path, text: str) -> None:
    assert split_command(text, tmp_path) == text.split()


# ---------- the environment of the place


def test_the_path_is_absolute_without_what_no_job_can_have(tmp_path: Path) -> None:
    odd = f"/bin::bin:../up:/bin:/a\x1b[2J:/\udcff:/{'x' * MAX_VARIABLE}:/usr/bin"
    assert search_path(odd, tmp_path) == f"/bin:{tmp_path}:{tmp_path}/bin:{tmp_path.parent}/up"
    assert search_path("/b\nc:/usr/bin", tmp_path) == "/usr/bin"


def test_the_activated_environment_goes_with_the_job(tmp_path: Path) -> None:
    environ = {
        "PATH": "/venv/bin",
        "VIRTUAL_ENV": "/venv",
        "CONDA_EXE": "/c\x1b",
        "HOME": "/root",
        "KEY": "secret",
    }
    assert activation(terminal_place(tmp_path, environ)) == {"PATH": "/venv/bin", "VIRTUAL_ENV": "/venv"}


def test_a_kernels_own_environment_is_the_activated_one() -> None:
    server = {"VIRTUAL_ENV": "/hub", "CONDA_PREFIX": "/hub", "CONDA_DEFAULT_ENV": "base", "A": "1"}
    venv = environment_variables(server, Path("/home/me/nlp"), venv=True, conda=False)
    assert venv == {"A": "1", "VIRTUAL_ENV": "/home/me/nlp"}
    conda = environment_variables(server, Path("/envs/nlp"), venv=False, conda=True)
    assert conda == {"A": "1", "CONDA_PREFIX": "/envs/nlp", "CONDA_DEFAULT_ENV": "nlp"}


# ---------- variables that are carried, or missed


def test_variables_are_carried_by_name_and_by_their_beginning(tmp_path: Path) -> None:
    environ = {"PATH": "/bin", "WANDB_API_KEY": "k", "WANDB_MODE": "offline", "HF_HOME": "/hf", "OTHER": "1"}
    here = terminal_place(tmp_path, environ)
    assert carried(["WANDB_*", "HF_HOME"], here) == {
        "WANDB_API_KEY": "k",
        "WANDB_MODE": "offline",
        "HF_HOME": "/hf",
    }
    assert carried(["NONE_*"], here) == {}
    request = submission(
        capture_words(["true"], here), {"carry": ("WANDB_*",), "env": {"WANDB_MODE": "x"}}, here=here
    )
    assert request.env == {"WANDB_API_KEY": "k", "WANDB_MODE": "x"}


@pytest.mark.parametrize("pattern", ["*", "", "A B", "-x", "A*B", "A=1", "\0", "WAND?", "[A]"])
def test_what_is_no_name_is_not_carried(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(CaptureError, match="expected the name of a variable or its beginning"):
        carried([pattern], terminal_place(tmp_path, {"PATH": "/bin", "A": "1"}))


def test_a_variable_that_is_not_set_or_is_the_places_own_is_not_carried(tmp_path: Path) -> None:
    here = terminal_place(tmp_path, {"PATH": "/bin", "JUPYTERHUB_API_TOKEN": "t", "JUPYTER_X": "1"})
    with pytest.raises(CaptureError, match="no such variable is set here"):
        carried(["WANDB_API_KEY"], here)
    with pytest.raises(CaptureError, match="is not carried"):
        carried(["JUPYTERHUB_API_TOKEN"], here)
    assert carried(["JUPYTER*"], here) == {"JUPYTER_X": "1"}


def test_what_is_carried_is_text_and_not_too_much(tmp_path: Path) -> None:
    here = terminal_place(tmp_path, {"PATH": "/bin", "X_1": "\udcff"})
    with pytest.raises(CaptureError, match="X_1 cannot be carried"):
        carried(["X_*"], here)
    many = terminal_place(tmp_path, {"PATH": "/bin", **{f"X_{number}": "" for number in range(201)}})
    with pytest.raises(CaptureError, match="at most 200"):
        carried(["X_*"], many)


def test_a_carried_pythonpath_is_absolute_and_leads_into_the_copy(here: Here) -> None:
    (here.cwd / "src").mkdir()
    (here.cwd / "src" / "pack.py").write_text("")
    place = terminal_place(here.cwd, {**here.variables, "PYTHONPATH": "src::/opt/lib"})
    place = Here(place.cwd, sys.executable, variables=place.variables)
    request = submission(capture_words(["python", "-m", "pack"], place), {"carry": ("PYTHONPATH",)}, here=place)
    assert request.env == {"PYTHONPATH": "{project_tree}/src:/opt/lib"}


def test_well_known_variables_and_those_of_an_admin_are_missed(tmp_path: Path) -> None:
    names = ("HF_HOME", "WANDB_API_KEY", "LAB_DATA", "SPRINGTIDE_URL", "EDITOR", "CUDA_VISIBLE_DEVICES")
    here = terminal_place(tmp_path, {"PATH": "/bin", **dict.fromkeys(names, "1")})
    assert uncarried(here, ["HF_HOME"]) == ["WANDB_API_KEY"]
    assert uncarried(here, [], ["LAB_*", "*"]) == ["EDITOR", "HF_HOME", "LAB_DATA", "WANDB_API_KEY"]
    assert uncarried(Here(tmp_path), []) == []
