"""The options of a job as a submission names them, and how those of two runs differ; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from springtide.scheduler import wire
from springtide.scheduler.model import PREEMPTIBLE_BELOW, PRIORITIES
from springtide.scheduler.resources import quantities
from springtide.scheduler.store.records import JobSpec, OptionDifference, RerunRef
from springtide.scheduler.wire.durations import shown
from springtide.scheduler.wire.options import Kind
from springtide.scheduler.wording import listed

VARIABLES = "env"


def options_of(spec: JobSpec) -> dict[str, Any]:
    """Return the options that a job was submitted with, as requests carry them.

    One whose value follows from others is at its default, so that it follows these in a run again, too.
    """
    names = {number: name for name, number in PRIORITIES.items()}
    return {
        "name": spec.name,
        "project": spec.project,
        "gpus": spec.gpus,
        "workers": spec.workers,
        "min_workers": None if spec.min_workers == spec.workers else spec.min_workers,
        "cpus": spec.cpus or None,
        "memory": spec.memory or None,
        "priority": names.get(spec.priority, spec.priority),
        "preemptible": None if spec.preemptible == (spec.priority < PREEMPTIBLE_BELOW) else spec.preemptible,
        "rotate": spec.rotate,
        "gpu_types": list(spec.gpu_types),
        "require": spec.require,
        "prefer": spec.prefer,
        "rdma": spec.rdma,
        "time_limit": spec.time_limit,
        "retries": spec.retries,
        "grace": spec.grace,
        "env": dict(spec.env),
        "image": spec.image,
        "datasets": list(spec.datasets),
        "requirements": list(spec.requirements),
        "tags": list(spec.tags),
        "test_run": spec.test_run,
    }


def with_changes(spec: JobSpec, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a run again; variables are added to those of the first run."""
    options = options_of(spec)
    variables = {**options[VARIABLES], **changes.get(VARIABLES, {})}
    return {**options, **changes, VARIABLES: variables}


def reference(first: JobSpec, again: JobSpec) -> RerunRef:
    """Return what a run again tells of the first run."""
    before, after = options_of(first), options_of(again)
    differences = [
        OptionDifference(name, option_text(name, before[name]), option_text(name, after[name]))
        for name in wire.OPTIONS
        if name != VARIABLES and before[name] != after[name]
    ]
    changed = [name for name, value in after[VARIABLES].items() if before[VARIABLES].get(name) != value]
    if changed:
        differences.append(OptionDifference(VARIABLES, "", f"with another {listed(changed)}"))
    return RerunRef(first.id, first.name, tuple(differences))


def option_text(name: str, value: object) -> str:
    """Return the value of an option as a person reads and types it; the words of the default for none."""
    option = wire.OPTIONS[name]
    if value is None or value == []:
        return option.default_words or "none"
    match option.kind:
        case Kind.DURATION:
            assert isinstance(value, int | float)
            return shown(value)
        case Kind.CORES:
            assert isinstance(value, int | float)
            return quantities.shown_cores(value)
        case Kind.MEMORY:
            assert isinstance(value, int)
            return quantities.shown_memory(value)
        case Kind.SWITCH:
            return "yes" if value else "no"
        case Kind.TEXTS:
            assert isinstance(value, list)
            return ", ".join(value)
        case _:
            return str(value)
