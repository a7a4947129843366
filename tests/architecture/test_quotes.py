"""Messages repeat what somebody gave by `wording.given`, not as Python writes it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from product_modules import ROOT, module_files

OF_ITS_OWN = ("training",)
"""Packages that cannot import `springtide.scheduler.wording`."""

ALLOWED = {
    "errors of programming, as Python's own": {
        ("hub_extension/__init__.py", "__name__"),
        ("hub_extension/__init__.py", "name"),
        ("widgets/__init__.py", "__name__"),
        ("widgets/__init__.py", "name"),
        ("scheduler/simulate/static.py", "change"),
        ("scheduler/engine/forecasts/worker_client.py", "error"),
    },
    "what IPython shows for an object": {
        ("widgets/handle.py", "self.id"),
        ("widgets/handle.py", "self"),
    },
    "Python or shell to copy or to run": {
        ("widgets/form/arguments.py", "written"),
        ("hub_extension/group_rules.py", "plain"),
        ("hub_extension/local_hub/up.py", "prepared"),
        ("hub_extension/local_hub/up.py", "settings"),
        ("hub_extension/local_hub/up.py", "shared"),
        ("hub_extension/local_hub/up.py", "state_dir"),
        ("hub_extension/local_hub/up.py", "str(options.config.resolve())"),
        ("scheduler/capture/notebook.py", "str(value)"),
        ("scheduler/capture/notebook.py", "value"),
        ("scheduler/arguments.py", "literal(text)"),
        ("scheduler/arguments.py", "value"),
        ("scheduler/capture/program.py", "command"),
        ("scheduler/file_names.py", "written"),
        ("scheduler/executors/packages/program.py", "path"),
        ("widgets/display/card.py", "job.id"),
        ("widgets/interrupts.py", "job.id"),
        ("widgets/job.py", "RESULT"),
        ("widgets/submission/capture.py", "str(work)"),
        ("widgets/submission/explain.py", "key"),
        ("widgets/submission/keywords.py", "name"),
        ("widgets/submission/spaces.py", "given"),
        ("widgets/submission/spaces.py", "name"),
        ("widgets/sweep.py", "self.id"),
    },
    "a filter in the language of MLflow": {
        ("hub_extension/tracking/mlflow.py", "job.id"),
    },
    "the function itself, and programs that run without the package": {
        ("scheduler/wording.py", "value"),
        ("scheduler/executors/packages/program.py", "words[0]"),
        ("scheduler/executors/supervisor/worker.py", "text[:1000]"),
    },
}


def as_python_writes(source: str) -> Iterator[str]:
    """Yield the values that texts show with their quotes in Python.

    These are ``{value!r}``, in templates too, ``repr(value)`` and ``'{value}'``.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FormattedValue) and node.conversion in map(ord, "ra"):
            yield ast.unparse(node.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"\{(\w+)!r", node.value)
        elif isinstance(node, ast.Call):
            words = [*node.args, node.func]
            if any(isinstance(word, ast.Name) and word.id in {"repr", "ascii"} for word in words):
                yield ast.unparse(node.args[0])
        elif isinstance(node, ast.JoinedStr):
            for before, part, after in zip(node.values, node.values[1:], node.values[2:], strict=False):
                if isinstance(part, ast.FormattedValue) and _ends(before)[1] == _ends(after)[0] == "'":
                    yield ast.unparse(part.value)


def _ends(part: ast.expr) -> tuple[str, str]:
    text = str(part.value) if isinstance(part, ast.Constant) else ""
    return text[:1], text[-1:]


def sources() -> dict[str, str]:
    paths: list[Path] = [
        path for module, path in module_files().items() if module.partition(".")[0] not in OF_ITS_OWN
    ]
    return {str(path.relative_to(ROOT)): path.read_text() for path in paths}


def test_messages_repeat_what_was_given_in_one_way() -> None:
    found = {(name, value) for name, source in sources().items() for value in as_python_writes(source)}
    allowed = set().union(*ALLOWED.values())
    assert found - allowed == set(), "show it by wording.given"
    assert allowed - found == set(), "allowed, and not there any more"


def test_what_python_writes_would_be_found() -> None:
    refused = """raise Refusal(404, f"no {name!r}, '{path}'", repr(x), hint=f"{y!a} {given(z)}", way="{w!r}")"""
    assert sorted(as_python_writes(refused)) == ["name", "path", "w", "x", "y"]
