"""What a job runs with: found without running its code, shown before it is sent, and kept with the job."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import pytest

from springtide.scheduler.capture import Here, capture_words
from springtide.scheduler.capture.environment import python_environment
from springtide.scheduler.capture.imports import Imports, imports_of_cells, reached_imports
from springtide.scheduler.capture.packages import environment_name
from springtide.scheduler.client import Client, PoolError
from springtide.scheduler.client.descriptions import facts
from springtide.scheduler.wire import JobEnvironment, PythonEnvironment, Submission
from springtide.widgets.connection import Connection
from springtide.widgets.job import Job
from springtide.widgets.shared_pool import Pool, backend_of
from springtide.widgets.submission.capture import capture, capture_cell

SCRIPT = """
import json, msgspec
import nowhere_to_be_found.deeply
from helper import double
try:
    import nowhere_but_optional
except ImportError:
    nowhere_but_optional = None
raise SystemExit("it was run")
"""
HELPER = "import httpx\ndef double(x):\n    import nowhere_in_a_helper\n    return 2 * x\n"
NEVER_READ = "import nowhere_and_not_imported\n"


@pytest.fixture
def script(workdir: Path) -> Path:
    """A script that imports an installed module, one beside it and a missing one."""
    (workdir / "main.py").write_text(SCRIPT)
    (workdir / "helper.py").write_text(HELPER)
    (workdir / "other.py").write_text(NEVER_READ)
    return workdir / "main.py"


# ---------- imports, from the text


def test_what_a_script_imports_is_read_through_its_own_files_alone(script: Path) -> None:
    captured = capture_words(["python", "main.py"], Here(script.parent))
    assert captured.imports.required == {
        *("json", "msgspec", "nowhere_to_be_found.deeply", "httpx", "nowhere_in_a_helper"),
    }
    assert captured.imports.optional == {"nowhere_but_optional"}


@pytest.mark.parametrize(
    ("text", "required"),
    [
        ("import a.b", {"a.b"}),
        ("if x:\n    import a", set()),
        ("try:\n    import a\nexcept (ModuleNotFoundError, OSError):\n    import b", set()),
        ("try:\n    import a\nexcept OSError:\n    pass", {"a"}),
        ("def f():\n    import a", {"a"}),
        ("from .beside import a", set()),
        ("import", set()),
    ],
)
def test_the_code_does_without_what_is_imported_under_a_condition(text: str, required: set[str]) -> None:
    files = {"pack/main.py": text.encode(), "pack/beside.py": b""}
    assert reached_imports(files, ["pack/main.py"]).required == required


def test_cells_with_magics_are_read_and_others_are_not_relied_upon() -> None:
    cells = ["%matplotlib inline\nimport a", "x = !ls\nimport b", "%%bash\nimport c"]
    assert imports_of_cells(cells) == Imports(frozenset({"a", "c"}), frozenset({"b"}))


def test_a_function_needs_the_modules_of_its_globals_and_of_its_arguments(workdir: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec("import msgspec\ndef train(x):\n    return msgspec.json.encode(x)", namespace)
    captured = capture(namespace["train"], [{"path": Path(), "client": Client}], {}, Here(workdir))
    needed = {name.partition(".")[0] for name in captured.imports.required}
    assert {"msgspec", "pathlib", "springtide"} <= needed
    assert "__main__" not in needed


def test_a_cell_needs_what_it_imports_and_what_its_variables_are_of(workdir: Path) -> None:
    captured = capture_cell(
        "import nowhere\nmsgspec.json.encode(x)", {"msgspec": msgspec, "x": 1}, (), Here(workdir)
    )
    assert {"nowhere", "msgspec"} <= captured.imports.required


# ---------- packages


def test_packages_have_versions_and_what_is_missing_is_named_without_running_the_code(script: Path) -> None:
    captured = capture_words(["python", "main.py"], Here(script.parent))
    found = python_environment(captured)
    assert found is not None
    assert (found.python, found.path) == (platform.python_version(), sys.executable)
    assert found.packages == {"msgspec": version("msgspec"), "httpx": version("httpx")}
    assert found.missing == ["nowhere_in_a_helper", "nowhere_to_be_found"]


def test_another_python_tells_its_own_packages(script: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    python = str(tmp_path / "bare" / "bin" / "python")
    found = python_environment(capture_words([python, "main.py"], Here(script.parent)))
    assert found is not None
    assert (found.path, found.packages) == (python, {})
    assert {"msgspec", "httpx"} <= set(found.missing)


@pytest.mark.parametrize("words", [["bash", "-c", "true"], ["/no/such/python3", "main.py"]])
def test_of_a_python_that_is_not_known_nothing_is_told(words: list[str], script: Path) -> None:
    assert python_environment(capture_words(words, Here(script.parent))) is None


def test_distributions_are_found_that_are_not_called_like_their_modules(workdir: Path) -> None:
    (workdir / "main.py").write_text("import yaml\n")
    found = python_environment(capture_words(["python", "main.py"], Here(workdir)))
    assert found is not None
    assert found.packages == {"PyYAML": version("pyyaml")}


# ---------- before it is sent, and with the job


def test_the_environment_is_shown_without_sending_anything(pool: Pool, script: Path) -> None:
    before = len(pool.jobs())
    shown = repr(pool.environment("python main.py", gpus=1, env={"TOKEN": "hunter2"}))
    assert f"Python: {platform.python_version()}, {sys.executable}" in shown
    assert "3 files copied (310 B): helper.py, main.py, other.py" in shown
    assert "nowhere_to_be_found, which are not installed in" in shown
    assert "Variables: TOKEN" in shown
    assert "hunter2" not in shown
    assert len(pool.jobs()) == before


def test_the_environment_is_kept_with_the_job_and_what_is_missing_is_told_at_submission(
    pool: Pool, script: Path
) -> None:
    job = pool.submit("python main.py", env={"TOKEN": "hunter2"})
    assert any("nowhere_to_be_found" in note for note in job.notes)
    shown = job.environment
    assert shown is not None
    assert shown.told.packages["msgspec"] == version("msgspec")
    assert shown.told.tree is not None
    assert shown.told.tree.files == ("helper.py", "main.py", "other.py")
    assert shown.told.variables == ["TOKEN"]
    assert "hunter2" not in json.dumps(msgspec.to_builtins(job.info))
    assert all(each.environment is None for each in pool.jobs().infos), "lists are short"
    again = job.rerun()
    assert again.environment is not None
    assert again.environment.told == shown.told


def test_the_form_tells_the_environment_of_a_function_that_lacks_arguments(pool: Pool, workdir: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec("import msgspec\ndef train(rate):\n    return msgspec, rate", namespace)
    answer = backend_of(pool, lambda: namespace).answer(
        {"do": "environment", "kind": "function", "work": "train", "typed": {"env": "A=1", "gpus": "no"}}
    )
    assert answer["error"] == ""
    assert answer["value"]["image"] is None
    assert answer["value"]["environment"]["packages"] == {"msgspec": version("msgspec")}
    assert answer["value"]["environment"]["variables"] == ["A"]
    assert answer["value"]["environment"]["files"] == []


def test_nothing_is_said_of_what_an_image_lacks(image_service: str, script: Path) -> None:
    pool = Pool(Connection(Client(image_service, "susan")))
    shown = repr(pool.environment("python main.py"))
    assert "Image: lab/base:1" in shown
    assert "where it was submitted; the image has its own" in shown
    assert "Missing" not in shown


def test_in_the_image_of_the_notebook_the_environment_of_a_job_is_the_notebooks(
    image_service: str, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPRINGTIDE_IMAGE", "lab/torch:2")
    pool = Pool(Connection(Client(image_service, "susan")))
    shown = repr(pool.environment("python main.py"))
    assert "Image: lab/torch:2" in shown
    assert "where it was submitted, in the same image" in shown
    assert "the image has its own" in repr(pool.environment("python main.py", image="lab/base:1"))
    with pytest.raises(PoolError, match="is not on the PATH of the submission"):
        pool.submit("nowhere-to-be-found")
    assert pool.submit("nowhere-to-be-found", image="lab/base:1").info.options.image == "lab/base:1"


@pytest.mark.parametrize("text", ["evil\x1b[2J", "a\nb", "\u202egpj"])
def test_an_environment_with_control_characters_is_refused(text: str, client_of: Callable[[str], Client]) -> None:
    hostile = PythonEnvironment(python="3", path="/", packages={text: "1"})
    with pytest.raises(PoolError, match="control characters"):
        client_of("susan").submit(Submission(argv=["true"], environment=hostile))


def test_many_files_are_counted() -> None:
    names = [f"f{number}.py" for number in range(9)]
    told = JobEnvironment(python="3.12.1", path="/usr/bin/python3", files=names, file_count=9, file_bytes=2048)
    files = dict(facts(told, None))["Files"]
    assert files.startswith("f0.py, f1.py, f2.py, f3.py, f4.py and 4 more (")


def test_required_packages_are_part_of_the_environment_and_of_a_run_again(pool: Pool, script: Path) -> None:
    shown = repr(pool.environment("python main.py", requirements="tidal>=1,<2"))
    assert "Installed for it: tidal>=1, <2" in shown
    assert "Missing" not in shown, "what will be there is not known"
    job = pool.submit("python main.py", requirements=["tidal>=1,<2"], gpus=4, priority="high")
    job.cancel()
    assert job.environment is not None
    assert job.environment.told.requirements == ("tidal<2,>=1",)
    assert job.environment.told.missing == []


def test_what_cannot_be_required_is_refused_in_the_form_as_at_submission(pool: Pool, script: Path) -> None:
    with pytest.raises(PoolError, match="is an option of pip"):
        pool.submit("python main.py", requirements=["--index-url=http://evil"])
    answer = backend_of(pool).answer({"do": "review", "typed": {"requirements": "torch @ http://evil"}})
    assert "names an address" in answer["value"]["problems"]["requirements"]


def test_a_job_in_an_image_requires_nothing_but_another_image(image_service: str, script: Path) -> None:
    pool = Pool(Connection(Client(image_service, "susan")))
    with pytest.raises(PoolError, match="Choose an image that has the packages: image=…"):
        pool.submit("python main.py", requirements=["torch"])


# ---------- the environment of the place


def test_a_kernels_python_and_programs_run_its_jobs(pool: Pool, workdir: Path, until: Callable[..., None]) -> None:
    show = "import sys, shutil; print(sys.executable, shutil.which('python3'))"
    job = pool.submit(["bash", "-c", f'python -c "{show}"']).wait(quiet=True)
    own = Path(sys.executable).parent
    assert str(job.logs()) == f"{sys.executable} {own}/python3\n"
    assert job.environment is not None
    assert job.environment.told.path == sys.executable


def test_a_function_runs_in_the_kernels_environment(pool: Pool, workdir: Path) -> None:
    def where() -> tuple[str, str, str]:
        return sys.executable, sys.prefix, os.environ["PATH"].split(":")[0]

    job = pool.submit(where, gpus=0)
    assert job.wait(quiet=True).result() == (sys.executable, sys.prefix, str(Path(sys.executable).parent))
    assert job.info.argv[0] == "python3"
    assert f"(environment {environment_name(sys.prefix)})" in repr(job.environment)


def test_trials_and_test_runs_have_the_environment_of_their_submission(
    pool: Pool, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_HOME", "/opt/cuda-of-the-kernel")

    def where(_item: int) -> tuple[str, str | None]:
        return sys.executable, os.environ.get("CUDA_HOME")

    own = (sys.executable, "/opt/cuda-of-the-kernel")
    assert pool.map(where, [1, 2], gpus=1).results() == [own] * 2
    assert pool.submit(where, 1, gpus=1, test_run=True).wait(quiet=True).result() == own


def test_a_program_that_is_not_there_is_refused_with_a_hint(pool: Pool, workdir: Path) -> None:
    before = len(pool.jobs())
    with pytest.raises(PoolError, match=r"“my” is not on the PATH of the submission\. Activate the environment"):
        pool.submit("my study.ipynb")
    assert len(pool.jobs()) == before


def test_a_notebook_whose_name_has_a_space_is_that_notebook(pool: Pool, workdir: Path) -> None:
    (workdir / "my study.ipynb").write_text(
        json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 4})
    )
    job = pool.submit("my study.ipynb")
    assert (job.info.kind, job.info.name) == ("notebook", "my study")


def test_what_is_set_and_not_sent_is_noted_and_carried_on_request(
    pool: Pool, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "hunter2")
    assert "WANDB_API_KEY" in repr(pool.environment("true")).partition("Not sent: ")[2]
    assert any("To send" in note and 'carry="' in note for note in pool.submit("true").notes)
    job = pool.submit(["bash", "-c", "echo $WANDB_API_KEY | tr a-z A-Z"], carry="WANDB_*")
    assert not any("WANDB_API_KEY" in note for note in job.notes)
    job.wait(quiet=True)
    assert str(job.logs()) == "HUNTER2\n"
    assert job.environment is not None
    assert job.environment.told.variables == ["WANDB_API_KEY"]
    assert "hunter2" not in json.dumps([msgspec.to_builtins(job.info), job.notes, repr(job.environment)])


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"program": "/a", "variables": {"PATH": "/a\x1b"}}, "control characters"),
        ({"variables": {"PATH": "x" * 40_000}}, "32,768"),
        ({"variables": {f"X{number}": "" for number in range(100)}}, "at most 15"),
        ({"program": "/bin/true\0", "variables": {"PATH": "/bin"}}, "control characters"),
        ({"program": "/" * 5000}, "4,096"),
        ({"name": "evil\x1b[2J"}, "control characters"),
        ({"image": "evil\x1b[2J"}, "control characters"),
    ],
)
def test_a_hostile_environment_is_refused(
    client_of: Callable[[str], Client], environment: dict[str, Any], words: str
) -> None:
    with pytest.raises(PoolError, match=words):
        client_of("susan").submit(Submission(argv=["true"], environment=PythonEnvironment(**environment)))


def test_only_variables_of_an_environment_are_taken_from_one(client_of: Callable[[str], Client]) -> None:
    environment = PythonEnvironment(
        program="/usr/bin/env", variables={"PATH": "/bin:/usr/bin", "LD_PRELOAD": "/evil.so"}
    )
    client = client_of("susan")
    job = Job(client.submit(Submission(argv=["env"], environment=environment)).id, Connection(client))
    assert "LD_PRELOAD" not in str(job.wait(quiet=True).logs())
    assert "PATH=/bin:/usr/bin\n" in str(job.logs())
