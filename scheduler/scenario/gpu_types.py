"""The GPU types of a scenario: their order, and tables of numbers by type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from springtide.scheduler.model import Amount
from springtide.scheduler.scenario.document import ScenarioError
from springtide.scheduler.scenario.shape import Document
from springtide.scheduler.wording import given


def types_of(document: Document, shown: str) -> tuple[str, ...]:
    """Return the GPU types of the nodes in the pool's order. Raise `ScenarioError` for an order that is none."""
    found = dict.fromkeys(node.gpu_type for node in document.nodes)
    for at, name in enumerate(document.gpu_types):
        if name not in found or name in document.gpu_types[:at]:
            message = f"expected each GPU type of the nodes once ({some(found)}), got {given(name)}"
            raise ScenarioError(shown, f"gpu_types[{at}]", message)
    return tuple(dict.fromkeys([*document.gpu_types, *found]))


def check_amounts(document: Document, types: Sequence[str], shown: str) -> None:
    """Check the numbers of GPUs of projects. Raise `ScenarioError`.

    Tables name types of the pool; where it has several, plain numbers other than 0 are no answer.
    """
    for at, project in enumerate(document.projects):
        amounts: tuple[tuple[str, Amount], ...] = (("quota", project.quota), ("limit", project.limit))
        for field, amount in amounts:
            if isinstance(amount, Mapping):
                unknown = next((name for name in amount if name not in types), None)
                if unknown is not None:
                    message = f"no node has GPUs of type {given(unknown)}, expected one of {some(types)}"
                    raise ScenarioError(shown, f"projects[{at}].{field}", message)
            elif amount and len(types) > 1:
                example = ", ".join(f'"{name}": {amount}' for name in types[:2])
                message = f"expected a table by GPU type ({some(types)}) such as {{{example}}}, got {amount}"
                raise ScenarioError(shown, f"projects[{at}].{field}", message)


def some(names: Iterable[str]) -> str:
    """Return some of the names, for messages."""
    shown = sorted(names)
    listed = ", ".join(given(name) for name in shown[:8])
    return f"{listed}, … ({len(shown)} in all)" if len(shown) > 8 else listed or "(there are none)"
