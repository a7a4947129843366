"""The corpus of training code, sent from a notebook in a pod, is the same after a pause as without one."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import framework_tools
import pytest
from clusters.cluster import Cluster
from clusters.kube_product import Member, Product, member, product
from clusters.real_node import GROUP, OWNER, RealNode, volume
from programs.commands import run
from programs.terminal import Done

from tests.real_code.corpus import Environment, Place, Program
from tests.real_code.desk import Desk, cases, check_it_ends_the_same_with_a_pause, lay_out, write_entry_point

HOME = Path("/home/jovyan")
OWN = HOME / "environment"
FRAMEWORKS = HOME / "frameworks"
NOTEBOOKS = Path("/opt/springtide")
DATASET = "frameworks"
LAUNCHERS = ("torchrun", "accelerate")
WORKER = {"cpuPerGpu": 1, "memoryPerGpu": 2}
RUN = """
import json, os, subprocess
words, cwd, env = json.loads({given!r})
path = env["PATH"] + os.pathsep + os.environ["PATH"]
done = subprocess.run(words, cwd=cwd, env=os.environ | env | {{"PATH": path}}, capture_output=True, text=True)
print(json.dumps([done.returncode, done.stdout, done.stderr]))
"""


@dataclass(frozen=True)
class Notebook:
    """The notebook of a member in a pod, and its home as a directory of this machine."""

    product: Product
    user: Member
    home: Path

    def run(self, *words: str, cwd: Path = HOME, environment: Path = NOTEBOOKS) -> Done:
        """Run a command in the pod, in a terminal with an activated environment."""
        activated = {"PATH": str(environment / "bin"), "VIRTUAL_ENV": str(environment)}
        given = json.dumps([words, str(cwd), activated])
        return Done(*json.loads(self.user.notebook.run(RUN.format(given=given))))

    def here(self, path: Path) -> Path:
        """Return where this machine has a path of the home."""
        return self.home / path.relative_to(HOME)


class PodDesk(Desk):
    """A desk in the notebook of a pod; the other commands ask the pool from outside of the cluster."""

    def __init__(self, notebook: Notebook, program: Program, project: Path) -> None:
        pool = {
            "SPRINGTIDE_URL": f"{notebook.product.url}/services/springtide",
            "JUPYTERHUB_API_TOKEN": notebook.user.token,
        }
        super().__init__(notebook.here(project), pool)
        self._notebook = notebook
        self._program = program
        self._place = project

    def send(self, *words: str) -> Done:
        """Run `springtide submit` in the project, in the notebook's pod."""
        environment = {
            Environment.OWN: OWN,
            Environment.NOTEBOOKS: NOTEBOOKS,
            Environment.FRAMEWORKS: FRAMEWORKS,
        }[self._program.environment]
        options = ("--dataset", DATASET) if self._program.environment is Environment.FRAMEWORKS else ()
        return self._notebook.run(
            "springtide", "submit", *options, *words, cwd=self._place, environment=environment
        )


@pytest.fixture(scope="module")
def notebook(
    cluster: Cluster, real_node: RealNode, real_build_node: RealNode, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Notebook]:
    """The notebook of susan, with an environment of her own in its home."""
    directory = tmp_path_factory.mktemp("product")
    nodes = {node.name: node for node in (real_node, real_build_node)}
    with ExitStack() as stack:
        values = {"train": WORKER, "datasets": {DATASET: {"claim": DATASET}}}
        made = stack.enter_context(product(cluster, nodes, directory, {"vision": ["susan"]}, values))
        frameworks = framework_tools.interpreter().parents[1]
        stack.enter_context(volume(cluster, frameworks, claim=(made.namespace, DATASET), own=False))
        susan = stack.enter_context(member(made, "susan"))
        susan.notebook.start(gpus=1)
        stack.callback(susan.notebook.stop)
        notebook = Notebook(made, susan, directory / "home")
        _make_environment(notebook, OWN)
        write_entry_point(notebook.here(OWN / "bin"), str(OWN / "bin" / "python"))
        yield notebook


@pytest.fixture(scope="module")
def frameworks(notebook: Notebook) -> None:
    """An environment in the home with the frameworks of the dataset."""
    _make_environment(notebook, FRAMEWORKS)
    (packages,) = notebook.here(FRAMEWORKS).glob("lib/python*/site-packages")
    theirs = framework_tools.interpreter()
    (built,) = theirs.parents[1].glob("lib/python*/site-packages")
    hint = f"the frameworks are for {built.parent.name}, the image has {packages.parent.name}: run `make tools`"
    assert built.parent.name == packages.parent.name, hint
    (packages / "frameworks.pth").write_text(f"/datasets/{DATASET}/{built.relative_to(theirs.parents[1])}\n")
    for name in LAUNCHERS:
        _, _, program = theirs.with_name(name).read_text().partition("\n")
        launcher = notebook.here(FRAMEWORKS / "bin" / name)
        launcher.write_text(f"#!{FRAMEWORKS}/bin/python\n{program}")
        launcher.chmod(0o755)


def _make_environment(notebook: Notebook, place: Path) -> None:
    made = notebook.run("python3", "-m", "venv", "--without-pip", str(place))
    assert made.code == 0, made.err


@pytest.fixture
def desk(notebook: Notebook, request: pytest.FixtureRequest) -> Callable[[Program], Desk]:
    """Lay out the project of a program in the home, and return the desk there."""

    def made(program: Program) -> Desk:
        if program.environment is Environment.FRAMEWORKS:
            request.getfixturevalue("frameworks")
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        lay_out(program, notebook.home, path)
        run("chown", "--recursive", "--no-dereference", f"{OWNER}:{GROUP}", notebook.home)
        return PodDesk(notebook, program, HOME / program.folder)

    return made


@pytest.mark.parametrize("program", cases(Place.PODS))
def test_a_program_ends_the_same_with_a_pause_and_edits_after_its_submission(
    program: Program, desk: Callable[[Program], Desk]
) -> None:
    check_it_ends_the_same_with_a_pause(desk(program), program)
