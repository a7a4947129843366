"""The layout is the architecture: a package uses only packages below it."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from import_graph import PRODUCT, ROOT, cycles, import_graph, import_statements, module_files

pytestmark = pytest.mark.xdist_group("layers")  # each worker would read all sources

SHIPPED = {".py", ".js", ".css", ".html"}

# What each folder of the product may use besides itself.
FOLDERS: dict[str, tuple[str, ...]] = {
    "training": (),
    "scheduler": (),
    "spawner": (
        "scheduler.client",
        "scheduler.wire",
        "scheduler.backoff",
        "scheduler.wording",
        "scheduler.datasets",
        "scheduler.executors.accounts",
        "scheduler.executors.notebooks",
        "scheduler.executors.supervisor.account",
    ),
    "widgets": (
        "training",
        "scheduler.client",
        "scheduler.wire",
        "scheduler.capture",
        "scheduler.backoff",
        "scheduler.wording",
    ),
    "hub_extension": ("scheduler",),
}

# The parts of each package, modules and sub-packages, from the lowest to the highest, and which of those below
# each may use. What is named in FOR_ALL is for every part of its package.
FOR_ALL: dict[str, tuple[str, ...]] = {
    "scheduler": (
        "model",
        "resources",
        "gpu_types",
        "gpu_models",
        "notifications",
        "refusal",
        "backoff",
        "clock",
        "lru_cache",
        "wording",
        "datasets",
        "own_files",
        "former_names",
    ),
    "scheduler.policy": (),
    "scheduler.engine": ("settings", "messages", "store_threads"),
    "hub_extension": (),
    "widgets": ("errors",),
}
LAYERS: dict[str, dict[str, tuple[str, ...]]] = {
    "scheduler": {
        "resources": (),
        "model": (),
        "gpu_types": (),
        "gpu_models": (),
        "notifications": (),
        "refusal": (),
        "backoff": (),
        "clock": (),
        "lru_cache": (),
        "wording": (),
        "datasets": (),
        "own_files": (),
        "former_names": (),
        "sentences": (),
        "wire": (),
        "capture": ("wire",),
        "history": (),
        "policy": (),
        "telemetry": (),
        "kube": (),
        "store": (),
        "client": ("wire",),
        "scenario": ("wire",),
        "promises": ("policy",),
        "executors": ("telemetry", "kube"),
        "simulate": ("history", "policy", "promises", "scenario", "sentences", "wire"),
        "forecast": ("history", "policy", "simulate"),
        "forecast_worker": ("forecast",),
        "plan_commands": ("simulate", "scenario", "forecast"),
        "engine": (
            "history",
            "policy",
            "promises",
            "sentences",
            "store",
            "telemetry",
            "executors",
            "wire",
            "forecast",
            "forecast_worker",
        ),
    },
    "scheduler.policy": {
        "state": (),
        "reasons": ("state",),
        "ordering": ("state",),
        "memo": ("state", "ordering"),
        "placement": ("state", "memo"),
        "plan_builder": ("state", "reasons", "memo"),
        "preemption": ("state", "reasons", "memo", "ordering", "placement", "plan_builder"),
        "phases": ("state", "reasons", "memo", "ordering", "placement", "plan_builder", "preemption"),
        "diagnosis": ("state", "reasons", "memo", "ordering", "placement", "plan_builder", "preemption", "phases"),
        "cycle": ("state", "reasons", "memo", "plan_builder", "phases"),
        "planner": ("state", "memo", "cycle", "diagnosis"),
    },
    "scheduler.engine": {
        "settings": (),
        "messages": (),
        "store_threads": (),
        "garbage": (),
        "large_buffers": (),
        "thread_switches": (),
        "state": (),
        "placements": ("state",),
        "node_groups": ("state",),
        "idle": ("state",),
        "notifications": ("state",),
        "default_projects": ("state",),
        "sweeps": ("state",),
        "test_runs": ("state",),
        "without_gpus": ("state",),
        "tags": ("state",),
        "environments": (),
        "datasets": (),
        "per_gpu": (),
        "programs": (),
        "requests": (
            "state",
            "placements",
            "idle",
            "sweeps",
            "test_runs",
            "without_gpus",
            "tags",
            "environments",
            "datasets",
            "per_gpu",
            "programs",
        ),
        "reruns": ("state", "environments"),
        "views": ("state", "placements", "node_groups", "sweeps", "environments", "requests"),
        "bootstrap": ("state", "requests"),
        "usage": ("state", "requests", "views"),
        "forecasts": ("state", "placements", "sweeps", "requests", "views"),
        "loop": ("state", "notifications", "sweeps", "test_runs", "without_gpus", "views", "forecasts"),
        "parts": (
            "state",
            "placements",
            "node_groups",
            "notifications",
            "default_projects",
            "idle",
            "sweeps",
            "requests",
            "reruns",
            "tags",
            "views",
            "usage",
            "forecasts",
            "loop",
        ),
        "engine": ("state", "sweeps", "requests", "reruns", "tags", "views", "forecasts", "parts"),
        "opening": (
            "state",
            "placements",
            "node_groups",
            "notifications",
            "default_projects",
            "idle",
            "sweeps",
            "requests",
            "reruns",
            "tags",
            "views",
            "usage",
            "forecasts",
            "loop",
            "parts",
            "engine",
            "bootstrap",
        ),
    },
    "hub_extension": {
        "accounts": (),
        "web": (),
        "notifications": ("web",),
        "tracking": (),
        "api": ("web", "notifications", "tracking"),
        "pages": ("web",),
        "train_jobs": ("web", "api"),
        "cluster": ("web", "api", "train_jobs"),
        "local_hub": ("accounts", "web"),
        "backup": ("local_hub",),
        "configuration": ("accounts", "web", "local_hub"),
        "service": ("accounts", "web", "notifications", "tracking", "api", "pages", "cluster", "local_hub"),
        "doctor": ("accounts", "web", "cluster", "local_hub", "backup", "service"),
        "commands": ("local_hub", "backup", "service", "doctor"),
        "command": ("commands",),
        "__main__": ("service",),
    },
    "widgets": {
        "errors": (),
        "connection": (),
        "visuals": (),
        "display": ("connection", "visuals"),
        "results": ("display",),
        "handle": ("connection", "display"),
        "job": ("connection", "display", "results", "handle"),
        "sweep": ("connection", "display", "results", "handle", "job"),
        "submission": ("connection", "display", "job"),
        "form": ("connection", "visuals", "display", "job", "submission"),
        "comparison": ("display", "results"),
        "shared_pool": (
            "comparison",
            "connection",
            "display",
            "results",
            "handle",
            "job",
            "sweep",
            "submission",
            "form",
        ),
        "airflow": ("connection", "job", "submission"),
        "magics": ("job", "submission", "shared_pool"),
        "server_extension": ("connection", "form", "job", "submission", "shared_pool"),
    },
}
OF_JUPYTER = {"springtide.widgets.lab_extension.static"}
"""Folders that are installed as data files, where JupyterLab finds them."""
BESIDE_THE_SERVICE = ("scheduler", "hub_extension", "spawner")
RUN_WHAT_THEY_READ = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}


def within(module: str, allowed: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in allowed)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_imports_only_folders_below_it(folder: str) -> None:
    wrong = [
        f"{module} imports {other}"
        for module, others in import_graph().items()
        for other in sorted(others)
        if within(module, (folder,)) and not within(other, (folder, *FOLDERS[folder]))
    ]
    assert wrong == []


@pytest.mark.parametrize("package", LAYERS)
def test_a_part_of_a_package_imports_only_parts_below_it(package: str) -> None:
    inside = [
        (module, other)
        for module, others in import_graph().items()
        for other in sorted(others)
        if within(module, (package,)) and within(other, (package,))
    ]
    wrong = [
        f"{module} imports {other}"
        for part, below in LAYERS[package].items()
        for module, other in inside
        if within(module, (f"{package}.{part}",))
        and not within(other, tuple(f"{package}.{each}" for each in (part, *FOR_ALL[package], *below)))
    ]
    assert inside
    assert wrong == []


@pytest.mark.parametrize("package", LAYERS)
def test_the_layers_name_every_part_from_the_lowest_to_the_highest(package: str) -> None:
    inside = [module for module in module_files() if module.startswith(f"{package}.")]
    assert set(LAYERS[package]) == {module.removeprefix(f"{package}.").partition(".")[0] for module in inside}
    known: set[str] = set(FOR_ALL[package])
    for part, below in LAYERS[package].items():
        assert set(below) <= known, f"{package}.{part} stands below one that it may use"
        known.add(part)


def test_no_modules_import_each_other() -> None:
    assert cycles(import_graph()) == []


def test_a_circle_of_imports_is_found() -> None:
    graph: Mapping[str, frozenset[str]] = {
        "a": frozenset({"b"}),
        "b": frozenset({"c"}),
        "c": frozenset({"b", "d"}),
        "d": frozenset(),
    }
    assert cycles(graph) == [["b", "c"]]


def test_what_runs_beside_the_service_reads_no_pickles() -> None:
    """A pickle of a user runs code in whoever reads it."""
    beside = [path for module, path in module_files().items() if within(module, BESIDE_THE_SERVICE)]
    wrong = [str(path.relative_to(ROOT)) for path in beside if imported_by(path) & RUN_WHAT_THEY_READ]
    assert len(beside) > 100
    assert wrong == []


def imported_by(path: Path) -> set[str]:
    """Return the packages that a file imports, anywhere in it."""
    names = set()
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif node.module:
            names.add(node.module.partition(".")[0])
    return names


def test_every_package_is_in_the_wheel() -> None:
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    files = [path for folder in PRODUCT for path in (ROOT / folder).rglob("*") if path.suffix in SHIPPED]
    found = {".".join(("springtide", *path.parent.relative_to(ROOT).parts)) for path in files}
    examples = {"springtide.examples.digits"}
    assert found - OF_JUPYTER | examples == listed


def test_the_training_library_needs_only_the_standard_library() -> None:
    paths = sorted((ROOT / "training").rglob("*.py"))
    others = {path.name: imported_at_once(path) - sys.stdlib_module_names - {"springtide"} for path in paths}
    assert len(others) > 10
    assert {name: packages for name, packages in others.items() if packages} == {}


def imported_at_once(path: Path) -> set[str]:
    """Return the packages that are imported with the file."""
    names = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.append(node.module or "")
    return {name.partition(".")[0] for name in names}
