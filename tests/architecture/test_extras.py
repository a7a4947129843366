"""Every package that the product imports is declared, in the extra that the importing module belongs to."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest
from declared import EXTRAS, OWN_NAME, closure, providers, requirements
from packaging.utils import canonicalize_name
from product_modules import ROOT, module_files

pytestmark = pytest.mark.xdist_group("extras")  # each worker would read all sources

# The extras that a module needs to be imported: those of the longest prefix.
EXTRAS_OF: dict[str, tuple[str, ...]] = {
    "hub_extension": ("hub",),
    "hub_extension.cluster": ("hub", "kubernetes"),
    "hub_extension.command": (),
    "hub_extension.commands": (),
    "hub_extension.commands.agents.server": ("mcp",),
    "hub_extension.commands.backup": ("hub",),
    "hub_extension.commands.doctor": ("hub",),
    "hub_extension.commands.joining": ("simulate",),
    "hub_extension.commands.mcp": ("mcp",),
    "hub_extension.commands.groups": ("simulate",),
    "hub_extension.commands.pool_file": ("simulate",),
    "hub_extension.commands.renumber": ("hub",),
    "hub_extension.commands.replay": ("hub",),
    "hub_extension.commands.up": ("hub",),
    "hub_extension.doctor.cluster": ("hub", "kubernetes"),
    "hub_extension.doctor.devices": ("hub", "kubernetes"),
    "hub_extension.doctor.homes": ("hub", "kubernetes"),
    "hub_extension.doctor.job_pods": ("hub", "kubernetes"),
    "hub_extension.doctor.other_pods": ("hub", "kubernetes"),
    "hub_extension.local_hub.proxy": ("hub", "proxy"),
    "hub_extension.tracking.mlflow": (),
    "hub_extension.tracking.tensorboard": ("hub", "tracking"),
    "hub_extension.tracking.tracker": (),
    "hub_extension.tracking.wandb": ("wandb",),
    "hub_extension.train_jobs": ("hub", "kubernetes"),
    "scheduler": ("hub",),
    "scheduler.capture": (),
    "scheduler.client": (),
    "scheduler.executors.kubernetes": ("hub", "kubernetes"),
    "scheduler.kube": ("hub", "kubernetes"),
    "scheduler.model": (),
    "scheduler.plan_commands": ("simulate",),
    "scheduler.policy": ("simulate",),
    "scheduler.promises": ("simulate",),
    "scheduler.refusal": (),
    "scheduler.settings": (),
    "scheduler.scenario": ("simulate",),
    "scheduler.simulate": ("simulate",),
    "scheduler.telemetry.agent": ("agent",),
    "scheduler.telemetry.agent.access": (),
    "scheduler.telemetry.agent.report": (),
    "scheduler.telemetry.nvml": ("gpu",),
    "scheduler.wire": (),
    "spawner": ("hub",),
    "spawner.kube": ("hub", "kubernetes"),
    "training": (),
    "widgets": ("widgets",),
    "widgets.airflow": ("airflow",),
    "widgets.job": (),  # and what it imports: tasks of Airflow use it, without the extra
    "widgets.submission.capture": (),
    "widgets.tensorboard": ("widgets", "tensorboard"),
    "widgets.tensorboard.__main__": ("widgets",),
    "widgets.tensorboard.said": ("widgets",),
}
IN_ANOTHER_ENVIRONMENT = {
    ("airflow",): "tests/frameworks/test_airflow.py",
    ("wandb",): "tests/frameworks/test_run_export.py",
}
"""Extras whose packages are not installed here, and what imports their modules where they are."""
FRAMEWORKS = {"torch", "lightning", "transformers", "keras", "orbax", "sklearn", "xgboost", "lightgbm"}
"""What the adapters of the training library import, where a job has it."""
NEVER_IMPORTED = {"cmaes", "ipython", "jupyterlab", "matplotlib", "notebook", "psycopg", "sniffio", "tqdm"}
"""What is declared because others load it: notebooks, people in them, Optuna, httpx, SQLAlchemy by the address."""

OF_TESTS = {"engine_worlds", "model", "cupy", "jax", "pip"}
"""Modules that tests make while they run, have in another environment, or have in any."""
CORPUS = ROOT / "tests/real_code/programs"
"""Programs that run in environments of their own."""

# Finds none of the packages that the environment under test would not have.
WITHOUT = """
import importlib.abc, sys
class Without(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}: it is not declared", name=name)
sys.meta_path.insert(0, Without())
"""


def extras_of(module: str) -> tuple[str, ...]:
    while module not in EXTRAS_OF:
        module = module.rpartition(".")[0]
    return EXTRAS_OF[module]


def imported(path: Path, *, at_once: bool) -> frozenset[str]:
    """The packages of others that a file imports: when it is imported itself, or also later."""
    return imports_of(path)[0 if at_once else 1]


@cache
def imports_of(path: Path) -> tuple[frozenset[str], frozenset[str]]:
    """The packages of others that a file imports when it is imported itself, and all that it ever imports."""
    tree = ast.parse(path.read_text())
    return packages_of(tree.body), packages_of(ast.walk(tree))


def packages_of(nodes: Iterable[ast.AST]) -> frozenset[str]:
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module or "")
    return frozenset(name.partition(".")[0] for name in names) - sys.stdlib_module_names - {OWN_NAME}


@cache
def declared(extras: tuple[str, ...]) -> set[str]:
    return {canonicalize_name(each.name) for each in requirements(extras)}


def undeclared(path: Path, extras: tuple[str, ...], *, at_once: bool) -> set[str]:
    wanted = declared(extras)
    names = imported(path, at_once=at_once) - FRAMEWORKS
    return {name for name in names if not providers().get(name, frozenset({name})) & wanted}


def test_what_a_module_imports_at_once_is_declared_by_its_extra() -> None:
    files = module_files().items()
    found = {module: undeclared(path, extras_of(module), at_once=True) for module, path in files}
    assert {module: missing for module, missing in found.items() if missing} == {}


def test_what_a_module_imports_later_is_declared_by_some_extra() -> None:
    product = tuple(set(EXTRAS) - {"dev"})
    found = {module: undeclared(path, product, at_once=False) for module, path in module_files().items()}
    assert {module: missing for module, missing in found.items() if missing} == {}


def test_notebooks_of_make_run_have_what_people_expect() -> None:
    [line] = [line for line in (ROOT / "Makefile").read_text().splitlines() if "'.[hub" in line]
    extras = line.partition("'.[")[2].partition("]'")[0].split(",")
    assert {"matplotlib", "numpy", "pandas", "tqdm"} <= declared(tuple(extras))


@pytest.mark.parametrize("folder", ["tests", "benchmarks", "docs", "examples"])
def test_what_tests_and_benchmarks_import_is_declared_for_developers(folder: str) -> None:
    files = sorted(path for path in (ROOT / folder).rglob("*.py") if not path.is_relative_to(CORPUS))
    of_tests = [path for path in (ROOT / "tests").rglob("*.py") for path in (path, path.parent)]
    ours = {path.stem for path in (*of_tests, *files)}
    found = {name for path in files for name in undeclared(path, ("dev", "airflow", "wandb"), at_once=False)}
    assert found - ours - OF_TESTS == set()


def test_what_is_declared_is_used() -> None:
    everything = [path for folder in ("tests", "examples") for path in (ROOT / folder).rglob("*.py")]
    everything += module_files().values()
    names = {name for path in everything for name in imported(path, at_once=False)}
    used = {package for name in names for package in providers().get(name, ())}
    product = declared(tuple(set(EXTRAS) - {"dev", "docs"}))  # Sphinx loads what docs/conf.py names
    assert product - used - NEVER_IMPORTED == set()


@pytest.mark.parametrize(
    "extras",
    sorted(set(EXTRAS_OF.values()) - set(IN_ANOTHER_ENVIRONMENT)),
    ids=lambda extras: "+".join(extras) or "base",
)
def test_every_module_is_imported_with_its_extra_alone(extras: tuple[str, ...]) -> None:
    there = closure(extras)
    hidden = {name for name, packages in providers().items() if not packages & there} - {OWN_NAME}
    modules = [
        module for module in module_files() if extras_of(module) == extras and not module.endswith("__main__")
    ]
    modules = [module for module in modules if not module.startswith("scheduler.store.migrations")]
    code = "\n".join([f"HIDDEN = {hidden!r}", WITHOUT, *(f"import {OWN_NAME}.{module}" for module in modules)])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
