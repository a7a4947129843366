"""Structs that carry the options of a job, made from one row of fields."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from springtide.scheduler.wire import JobOptions

T = TypeVar("T", bound=msgspec.Struct)


def with_options(kind: type[T], /, **fields: Any) -> T:
    """Return a struct of a kind; fields that it does not have itself are those of its options."""
    own = {name: value for name, value in fields.items() if name in kind.__struct_fields__}
    options = {name: value for name, value in fields.items() if name not in own}
    return kind(**own, options=JobOptions(**options))
