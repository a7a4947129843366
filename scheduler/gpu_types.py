"""GPU types: the types of a pool in their order, and the numbers of GPUs that count for one type."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from springtide.scheduler.model import Amount, Node, Project, Standing
from springtide.scheduler.settings import SettingError, entries_by_name
from springtide.scheduler.wording import count, given, listed

UNKNOWN = "gpu"
"""Type of GPUs whose model is not known."""
_BRANDS = frozenset({"nvidia", "tesla", "geforce", "quadro", "amd"})
"""Words that are left out of a model's name where others distinguish it."""
_SEPARATORS = re.compile(r"[\s_-]+")


def pool_types(nodes: Iterable[Node], order: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the GPU types of the nodes, those of ``order`` first; ``("",)`` without nodes.

    Types that ``order`` does not name follow in the order of the names of their nodes.
    """
    named = dict.fromkeys(node.gpu_type for node in sorted(nodes, key=lambda node: node.name))
    return (
        *(gpu_type for gpu_type in order if gpu_type in named),
        *(gpu_type for gpu_type in named if gpu_type not in order),
    ) or ("",)


class NodesByType:
    """The nodes with GPUs by type, in the pool's order; worked out once for the same tuple of nodes."""

    def __init__(self) -> None:
        self._nodes: Sequence[Node] | None = None
        self._order: Sequence[str] = ()
        self._found: Mapping[str, Sequence[Node]] = {}

    def of(self, nodes: Sequence[Node], order: Sequence[str]) -> Mapping[str, Sequence[Node]]:
        """Return the nodes of each type; ``order`` is that of `pool_types`."""
        if nodes is not self._nodes or order != self._order:
            self._nodes, self._order = nodes, order
            found = [node for node in nodes if node.gpus]
            by_type: dict[str, list[Node]] = (
                {gpu_type: [] for gpu_type in pool_types(found, order)} if found else {}
            )
            for node in found:
                by_type[node.gpu_type].append(node)
            self._found = by_type
        return self._found


def accepted_types(gpu_types: Sequence[str], types: Sequence[str]) -> tuple[str, ...]:
    """Return the pool's GPU types that a job accepts, in its order of preference; empty if there is none.

    A job that names no ``gpu_types`` accepts all ``types`` of the pool.
    """
    return tuple(gpu_type for gpu_type in dict.fromkeys(gpu_types or types) if gpu_type in types)


def amount_of(amount: Amount, gpu_type: str, types: Sequence[str], missing: int | None = 0) -> int | None:
    """Return the number of GPUs of one type; ``missing`` counts for types absent from the amount.

    ``types`` are those of the pool. None and 0 apply to all types. Another plain number applies to the first of
    them, the only one of most pools.
    """
    if not amount and not isinstance(amount, Mapping):
        return amount
    if isinstance(amount, int):
        return amount if not types or gpu_type == types[0] else missing
    return amount.get(gpu_type, missing)


def amount_words(amount: Amount) -> str:
    """Return an amount as people write it: ``4``, ``4 a100, 2 t4``, ``none``."""
    if isinstance(amount, Mapping):
        return ", ".join(f"{amount_words(number)} {name}" for name, number in amount.items()) or "0"
    return "none" if amount is None else str(amount)


def typed_amount(amount: Mapping[str, int | None]) -> str:
    """Return a table as commands take it: ``t4=4,a100=none``."""
    return ",".join(f"{name}={amount_words(number)}" for name, number in amount.items())


def gpus_words(amount: Amount) -> str:
    """Return an amount with its noun: ``4 GPUs``, ``1 t4 GPU and 2 a100 GPUs``; types without any are left out."""
    if not isinstance(amount, Mapping):
        return count(amount or 0, "GPU")
    return listed([count(number, f"{name} GPU") for name, number in amount.items() if number]) or count(0, "GPU")


def quota_of(project: Project, gpu_type: str, types: Sequence[str]) -> int | None:
    """Return the project's quota of one type; None means unlimited."""
    return amount_of(project.quota, gpu_type, types)


def limit_of(project: Project, gpu_type: str, types: Sequence[str]) -> int | None:
    """Return the project's limit of one type; None means no limit."""
    return amount_of(project.limit, gpu_type, types, None)


def build_quota_of(project: Project, gpu_type: str, types: Sequence[str]) -> int:
    """Return the number of GPUs of one type of each member for notebooks. ``types`` are those of build nodes."""
    return amount_of(project.build_quota, gpu_type, types) or 0


def project_of_type(project: Project, gpu_type: str, types: Sequence[str]) -> Project:
    """Return the project with the plain numbers of one type."""
    return replace(
        project,
        quota=quota_of(project, gpu_type, types),
        limit=limit_of(project, gpu_type, types),
        build_quota=build_quota_of(project, gpu_type, types),
    )


def as_table(amount: Amount, types: Sequence[str], missing: int | None = 0) -> dict[str, int | None]:
    """Return the number of GPUs of each type of the pool."""
    return {gpu_type: amount_of(amount, gpu_type, types, missing) for gpu_type in types}


def total(amount: Amount) -> int | None:
    """Return the sum over all types; None if that of any type is None."""
    if amount is None or isinstance(amount, int):
        return amount
    numbers = [number for number in amount.values() if number is not None]
    return sum(numbers) if len(numbers) == len(amount) else None


def summed(by_type: dict[str, Standing]) -> Standing:
    """Return the standing of a project on a pool with these types."""
    parts = by_type.values()
    return Standing(
        quota=total({name: standing.quota for name, standing in by_type.items()}),
        limit=total({name: standing.limit for name, standing in by_type.items()}),
        fair_share=sum(part.fair_share for part in parts),
        held=sum(part.held for part in parts),
        request=sum(part.request for part in parts),
        by_type=by_type,
    )


def machine_of(node: str) -> str:
    """Return the machine of a node: one with GPUs of several kinds is several nodes (``a``, ``a/mig-1g.5gb``)."""
    return node.partition("/")[0]


def type_name(model: str) -> str:
    """Return the type by which users name a model: ``a100-sxm4-80gb`` for ``NVIDIA A100-SXM4-80GB``.

    Drivers, device plugins and node labels write the same model with spaces, dashes or underscores.
    """
    words = [word for word in _SEPARATORS.split(model.lower()) if word and word != UNKNOWN]
    return "-".join([word for word in words if word not in _BRANDS] or words) or UNKNOWN


class DeclarationError(ValueError):
    """The declared types contradict each other; the message names type and model."""


@dataclass(frozen=True, slots=True)
class DeclaredTypes:
    """The types that an admin declares, cheapest first, each with the names of its models.

    A model that is not declared is a type of its own, after the declared ones.
    """

    declared: tuple[str, ...] = ()
    _type_of: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_setting(cls, models: Mapping[str, Sequence[str]]) -> DeclaredTypes:
        """Return the types of the setting ``gpu_types``: models by type, cheapest type first.

        Raises `DeclarationError` for a model that is declared for two types.
        """
        types: dict[str, str] = {}
        for name, of_type in models.items():
            own = type_name(name)
            for model in (name, *of_type):
                if types.setdefault(type_name(model), own) != own:
                    raise DeclarationError(
                        f"{given(model)} is declared to be both {given(types[type_name(model)])} and {given(own)}."
                    )
        return cls(tuple(dict.fromkeys(type_name(name) for name in models)), types)

    def of(self, name: str) -> str:
        """Return the type of a model; a type's own name is also one of its models."""
        model = type_name(name)
        return self._type_of.get(model, model)

    def in_order(self, types: Iterable[str]) -> tuple[str, ...]:
        """Return the types without repetition: the declared ones, cheapest first, then the others as they come."""
        found = dict.fromkeys(types)
        return (
            *(gpu_type for gpu_type in self.declared if gpu_type in found),
            *(t for t in found if t not in self.declared),
        )


def declared_types(types: Iterable[Mapping[str, Any]] | Mapping[str, Sequence[str]]) -> DeclaredTypes:
    """Return the GPU types of the setting ``gpu_types``: models by type, or a list with name and models of each.

    Raises `SettingError` for a model of two types.
    """
    if not isinstance(types, Mapping):
        by_name = entries_by_name(types, "gpu_types")
        types = {name: fields.get("models", []) for name, fields in by_name.items()}
    try:
        models = msgspec.convert(types, dict[str, list[str]])
    except msgspec.ValidationError:
        example = "{'t4': [], 'a100': ['NVIDIA A100-SXM4-80GB']}"
        raise SettingError(f"Springtide.gpu_types: each type has a list of names of models: {example}.") from None
    try:
        return DeclaredTypes.of_setting(models)
    except DeclarationError as error:
        raise SettingError(f"Springtide.gpu_types: {error}") from error
