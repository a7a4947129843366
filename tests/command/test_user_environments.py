"""Environments that people make for themselves, with kernels for their notebooks."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager
from patience import PATIENCE_S
from pools.pool_process import running_service
from programs.terminal import Done, Run, called
from programs.wheels import write_wheel

from springtide.hub_extension.commands.missing_extras import remedy
from springtide.scheduler.user_environments import (
    UserEnvironmentError,
    UserEnvironments,
    how_to_install,
    user_environments,
)


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory in which pip installs the package ``tidal`` and no other."""
    home = tmp_path / "home"
    for path in (home, tmp_path / "wheels"):
        path.mkdir()
    for name, value in {"HOME": str(home), **write_wheel(tmp_path / "wheels")}.items():
        monkeypatch.setenv(name, value)
    for name in ("XDG_DATA_HOME", "JUPYTER_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def mine(offline: Path) -> UserEnvironments:
    return user_environments({"HOME": str(offline)}, lambda _line: None)


@pytest.fixture
def env(offline: Path) -> Callable[..., Done]:
    """The command ``springtide env``."""
    return lambda *words: called("env", *words, env=dict(os.environ), cwd=offline)


@pytest.fixture
def kernel_of(offline: Path) -> Iterator[Callable[[str], Callable[[str], str]]]:
    """Start the kernel of an environment; return what its code prints."""
    started: list[KernelManager] = []

    def kernel_of(name: str) -> Callable[[str], str]:
        specs = KernelSpecManager(kernel_dirs=[str(offline / ".local/share/jupyter/kernels")])
        assert name in specs.find_kernel_specs()
        manager = KernelManager(kernel_name=name, kernel_spec_manager=specs)
        manager.start_kernel()
        started.append(manager)
        client = manager.client()
        client.start_channels()
        client.wait_for_ready(timeout=PATIENCE_S)

        def run(code: str) -> str:
            printed: list[str] = []

            def keep(message: dict[str, Any]) -> None:
                content = message["content"]
                printed.append(content.get("text") or "\n".join(content.get("traceback", [])))

            client.execute_interactive(code, output_hook=keep, timeout=PATIENCE_S)
            return "".join(printed)

        return run

    yield kernel_of
    for manager in started:
        manager.shutdown_kernel(now=True)


def test_a_made_environment_is_a_kernel_with_its_packages_and_those_of_the_hub(
    env: Callable[..., Done], kernel_of: Callable[[str], Callable[[str], str]]
) -> None:
    done = env("create", "bert", "tidal", "--json")
    assert done.code == 0, done.err
    made = done.json
    run = kernel_of(made["kernel"])
    assert run("import sys; print(sys.prefix)").strip() == made["path"]
    assert run("import tidal; print(tidal.__file__)").startswith(made["path"])
    assert run("from springtide.widgets import pool; print(pool)").strip() == "springtide.widgets.pool"
    assert run("import shutil; print(shutil.which('python'))").strip() == f"{made['path']}/bin/python"


def test_pip_install_in_the_kernel_installs_into_the_environment(
    mine: UserEnvironments, kernel_of: Callable[[str], Callable[[str], str]]
) -> None:
    made = mine.create("plain")
    run = kernel_of(made.kernel)
    assert "Successfully installed tidal-1.2" in run("%pip install tidal")
    assert run("import tidal; print(tidal.__file__)").startswith(str(made.path))


def test_the_program_pip_of_an_environment_installs_into_it(
    mine: UserEnvironments, kernel_of: Callable[[str], Callable[[str], str]]
) -> None:
    made = mine.create("plain")
    run = kernel_of(made.kernel)
    assert "Successfully installed tidal-1.2" in run("!pip install tidal")
    assert run("import tidal; print(tidal.__file__)").startswith(str(made.path))


def test_the_command_in_an_environment_has_the_packages_of_the_environment(
    mine: UserEnvironments, kernel_of: Callable[[str], Callable[[str], str]]
) -> None:
    made = mine.create("plain", ["tidal"])
    run = kernel_of(made.kernel)
    assert run("!which springtide").strip() == str(made.path / "bin/springtide")
    assert "springtide, version" in run("!springtide --version")
    assert run("!python -m springtide --version") == run("!springtide --version")


def test_what_a_command_lacks_is_installed_where_it_runs(mine: UserEnvironments, offline: Path) -> None:
    home = {"HOME": str(offline)}
    assert remedy("mcp", "mcp", home, can_install=True) == "pip install 'springtide[mcp]'"
    activate = mine.root / "mcp/bin/activate"
    assert remedy("mcp", "mcp", home, can_install=False).endswith(
        f"own: springtide env create mcp 'springtide[mcp]'; source {activate}; springtide mcp"
    )
    made = mine.create("plain")
    said = remedy("mcp", "mcp", {**home, "VIRTUAL_ENV": str(made.path)}, can_install=False)
    assert "in the active environment plain" in said
    assert said.endswith("python -m pip install 'springtide[mcp]', then python -m springtide mcp")
    own = {**home, "VIRTUAL_ENV": sys.prefix}
    assert remedy("mcp", "mcp", own, can_install=True) == "pip install 'springtide[mcp]'"


def test_an_extra_of_the_product_installs_into_an_environment_without_an_index(mine: UserEnvironments) -> None:
    made = mine.create("frames", ["springtide[pandas]"])
    assert made.packages == ("springtide[pandas]",)


def test_jobs_of_a_notebook_with_the_kernel_run_in_the_environment(
    mine: UserEnvironments,
    kernel_of: Callable[[str], Callable[[str], str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = mine.create("jobs", ["tidal"])
    (tmp_path / "pool").mkdir()
    with running_service(tmp_path / "pool") as url:
        monkeypatch.setenv("SPRINGTIDE_URL", url)
        monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "susan")
        run = kernel_of(made.kernel)
        run("import sys, tidal\nfrom springtide.widgets import pool")
        asked = "pool.submit(lambda: (sys.prefix, tidal.WORD), gpus=0).wait(quiet=True).result()"
        assert run(f"print({asked})").strip() == f"('{made.path}', 'ebb')"
        script = "import sys; print(sys.prefix)"
        asked = f"pool.submit(['python', '-c', {script!r}], gpus=0).wait(quiet=True).logs()"
        assert run(f"print({asked})").strip() == str(made.path)


def test_environments_are_listed_extended_and_removed(env: Callable[..., Done], offline: Path) -> None:
    assert env("list").out == "You have no environment. Make one with `springtide env create NAME`.\n"
    assert env("create", "a").code == 0
    assert env("install", "a", "tidal").code == 0
    [listed] = env("list", "--json").json
    assert (listed["name"], listed["packages"], listed["problem"]) == ("a", ["tidal"], "")
    assert "tidal" in env("list").out
    again = env("create", "a")
    assert (again.code, "There is an environment a already." in again.err) == (1, True)
    assert env("remove", "a").code == 0
    assert env("list", "--json").json == []
    assert list((offline / ".local/share/jupyter/kernels").iterdir()) == []
    assert env("create", "a").code == 0


def test_what_cannot_be_installed_leaves_no_environment_behind(env: Callable[..., Done], offline: Path) -> None:
    failed = env("create", "a", "ebb-and-flood")
    assert failed.code == 1
    assert failed.err.splitlines()[-1] == (
        "Error: ebb-and-flood cannot be installed into the environment a: "
        "ERROR: No matching distribution found for ebb-and-flood"
    )
    assert env("list", "--json").json == []
    assert not (offline / ".local/share/jupyter/kernels").exists()


@pytest.mark.parametrize("name", ["", "..", "../x", "A", ".hidden", "a/b", "a b", "-x", "x" * 41, "a\n"])
def test_what_is_no_name_is_refused(mine: UserEnvironments, name: str, offline: Path) -> None:
    for call in (mine.create, mine.remove):
        with pytest.raises(UserEnvironmentError, match="is no name of an environment"):
            call(name)
    assert list(offline.iterdir()) == []


def test_options_of_pip_are_no_packages(mine: UserEnvironments) -> None:
    with pytest.raises(UserEnvironmentError, match="“--pre” is no package"):
        mine.create("a", ["--pre"])


def test_an_unknown_environment_is_answered_with_the_known_ones(mine: UserEnvironments) -> None:
    with pytest.raises(UserEnvironmentError, match=r"There is no environment b\. Make one with"):
        mine.install("b", ["tidal"])
    mine.create("a")
    with pytest.raises(UserEnvironmentError, match=r"There is no environment b\. You have a\."):
        mine.remove("b")


def test_an_interrupted_environment_is_made_anew(mine: UserEnvironments) -> None:
    made = mine.create("a")
    (made.path / "springtide.json").unlink()
    [found] = mine.all()
    assert found.problem == "The environment a is not complete."
    with pytest.raises(UserEnvironmentError, match="Make it anew with `springtide env create a`"):
        mine.install("a", ["tidal"])
    assert mine.create("a", ["tidal"]).problem == ""


def test_an_environment_whose_basis_is_gone_says_so(mine: UserEnvironments, tmp_path: Path) -> None:
    made = mine.create("a")
    about = json.loads((made.path / "springtide.json").read_text())
    (made.path / "springtide.json").write_text(json.dumps({**about, "basis": [str(tmp_path / "former")]}))
    [found] = mine.all()
    assert found.problem == f"The environment a was made on {tmp_path / 'former'}, which is gone."


def test_a_python_that_is_not_there_is_said_to_be_missing(
    mine: UserEnvironments, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserEnvironmentError, match=r"There is no Python 3\.99 here"):
        mine.create("a", python="3.99")
    with pytest.raises(UserEnvironmentError, match="“2” is no version of Python"):
        mine.create("a", python="2")
    assert mine.all() == []


def test_the_advice_to_install_is_what_works_for_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: True)
    assert how_to_install("pandas", "torch<3") == "%pip install pandas 'torch<3'"
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert how_to_install("pandas").startswith("make an environment of your own")
    assert how_to_install("pandas").endswith("in a terminal: springtide env create NAME pandas")


PIP = """
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
import springtide.widgets

shell.run_cell("%pip install pandas-stubs")
"""


@pytest.mark.xdist_group("hub-command")
def test_pip_in_the_hubs_own_kernel_says_what_works_for_a_person_of_the_hub(run: Run, directory: Path) -> None:
    (directory / "guarded.py").write_text(PIP)
    done = run("submit", "--gpus", "0", "--follow", "--", "python", "guarded.py")
    assert "Nothing was installed: make an environment of your own" in done.out, done.err
    assert done.out.rstrip().endswith("springtide env create NAME pandas-stubs")


@pytest.mark.xdist_group("hub-command")
def test_a_person_of_a_hub_makes_an_environment_that_her_jobs_use(run: Run, directory: Path) -> None:
    made = run("submit", "--gpus", "0", "--follow", "--", "springtide", "env", "create", "mine", "--json")
    assert made.code == 0, made.out + made.err
    path = json.loads(made.out.splitlines()[-1])["path"]
    script = directory / "where.py"
    script.write_text("import os, sys; print(sys.prefix, os.stat(sys.prefix).st_uid == os.getuid())\n")
    done = run("submit", "--gpus", "0", "--follow", "--", f"{path}/bin/python", "where.py")
    assert done.out == f"{path} True\n", done.err
    assert run("submit", "--gpus", "0", "--follow", "--", "springtide", "env", "remove", "mine").code == 0
