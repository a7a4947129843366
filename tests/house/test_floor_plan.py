"""The layout is the architecture: a room uses only rooms below it, and stays small enough to read."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHIPPED = {".py", ".js", ".css", ".html"}
ROOMS = ("hub_extension", "scheduler", "spawner", "training", "widgets")

MAY_USE: dict[str, tuple[str, ...]] = {
    "training": ("training",),
    "scheduler": ("scheduler",),
    "spawner": ("spawner", "scheduler.client", "scheduler.wire"),
    "widgets": ("widgets", "training", "scheduler.client", "scheduler.wire", "scheduler.capture"),
    "hub_extension": ("hub_extension", "scheduler"),
}

# Inside the scheduler: each room and what it may use besides itself; the words at the bottom are for all.
SCHEDULER_FLOORS: dict[str, tuple[str, ...]] = {
    "model": (),
    "wire": (),
    "refusal": (),
    "capture": (),
    "client": ("wire",),
    "policy": (),
    "promises": ("policy",),
    "scenario": ("wire",),
    "telemetry": (),
    "kube": (),
    "executors": ("telemetry", "kube"),
    "store": (),
    "simulate": ("policy", "promises", "scenario", "wire"),
    "forecast": ("policy", "simulate"),
    "foresee": ("forecast",),
    "plan_commands": ("simulate", "scenario", "forecast"),
    "engine": ("policy", "promises", "store", "executors", "wire", "forecast", "foresee"),
}
WORDS = ("model", "refusal")


def sources() -> Iterator[Path]:
    for room in ROOMS:
        yield from sorted((ROOT / room).rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """Modules of the project that a file imports, without the ``springtide.`` in front."""
    package = ".".join(path.relative_to(ROOT).parent.parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            base = package.split(".")[: len(package.split(".")) - node.level + 1]
            names = [".".join(["springtide", *base, *([node.module] if node.module else [])])]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = [f"{module}.{alias.name}" for alias in node.names] if module.count(".") < 2 else [module]
        else:
            continue
        yield from (name.removeprefix("springtide.") for name in names if name.startswith("springtide."))


def within(module: str, allowed: tuple[str, ...]) -> bool:
    return any(module == room or module.startswith(room + ".") for room in allowed)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_rooms_below_it(room: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports springtide.{module}"
        for path in sorted((ROOT / room).rglob("*.py"))
        for module in imported(path)
        if not within(module, MAY_USE[room])
    ]
    assert wrong == []


def test_the_floors_of_the_scheduler_have_no_circles() -> None:
    wrong = []
    for path in sorted((ROOT / "scheduler").rglob("*.py")):
        parts = path.relative_to(ROOT / "scheduler").with_suffix("").parts
        room = parts[0]
        if room == "__init__":
            continue
        allowed = (room, *WORDS, *SCHEDULER_FLOORS[room])
        for module in imported(path):
            below = module.removeprefix("scheduler.").split(".")[0]
            if below not in allowed:
                wrong.append(f"{path.relative_to(ROOT)} imports {module}")
    assert wrong == []


def test_files_stay_short_enough_to_read() -> None:
    files = [*sources(), *(ROOT / "widgets").rglob("*.js"), *(ROOT / "hub_extension").rglob("*.js")]
    long = {str(path.relative_to(ROOT)): n for path in files if (n := len(path.read_text().splitlines())) > 420}
    assert long == {}


def test_every_package_is_in_the_wheel() -> None:
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    files = [path for room in ROOMS for path in (ROOT / room).rglob("*") if path.suffix in SHIPPED]
    found = {".".join(("springtide", *path.parent.relative_to(ROOT).parts)) for path in files}
    examples = {"springtide.examples.digits"}
    assert found | examples == listed


def test_the_training_library_needs_only_the_standard_library() -> None:
    for path in sorted((ROOT / "training").rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom) and not node.level
                else []
            )
            for name in names:
                top = name.split(".")[0]
                assert top in sys.stdlib_module_names or top == "springtide", f"{path} imports {name} at once"
