"""Names of GPU types: from the model that a driver or a label reports, and as an admin declares them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from springtide.scheduler.wording import given

UNKNOWN = "gpu"
"""Type of GPUs whose model is not known."""
_BRANDS = frozenset({"nvidia", "tesla", "geforce", "quadro", "amd"})
"""Words that are left out of a model's name where others distinguish it."""
_SEPARATORS = re.compile(r"[\s_-]+")


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
        return (*(each for each in self.declared if each in found), *(t for t in found if t not in self.declared))
