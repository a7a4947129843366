"""How several jobs differ: in parameters, options, variables, commands, files and code; pure."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from string import ascii_uppercase
from typing import Any

from springtide.scheduler import wire
from springtide.scheduler.engine.reruns.changes import VARIABLES, option_text, options_of
from springtide.scheduler.store.records import JobRecord, JobSpec

MAX_LINES = 1000
"""Maximum number of lines of a source that is compared line by line."""
MAX_VALUE = 2000
"""Maximum length of a value that is told, in characters."""
NONE = "none"


def differences(jobs: Sequence[JobRecord]) -> list[wire.Difference]:
    """Return what differs among jobs, the parameters of trials first; what is equal in all is left out."""
    specs = [job.spec for job in jobs]
    options = [options_of(spec) for spec in specs]
    found = [
        *_by_name("parameter", [_parameters(job) for job in jobs], str),
        *(
            wire.Difference(kind="option", name=name, values=[option_text(name, each[name]) for each in options])
            for name in wire.OPTIONS
            if name not in {VARIABLES, "name"}
        ),
        *_variables([each[VARIABLES] for each in options]),
        *_arguments([spec.argv for spec in specs]),
        wire.Difference(kind="files", name="files", values=_letters([spec.bundle for spec in specs])),
    ]
    return [
        wire.Difference(kind=each.kind, name=each.name, values=[value[:MAX_VALUE] for value in each.values])
        for each in found
        if len(set(each.values)) > 1
    ]


def _parameters(job: JobRecord) -> Mapping[str, Any]:
    outcome, trial = job.standing.outcome, job.spec.trial
    if outcome is not None and outcome.parameters is not None:
        return outcome.parameters
    return (trial and trial.parameters) or {}


def _by_name(
    kind: str, tables: Sequence[Mapping[str, Any]], shown: Callable[[Any], str]
) -> Iterator[wire.Difference]:
    for name in dict.fromkeys(name for table in tables for name in table):
        values = [shown(table[name]) if name in table else NONE for table in tables]
        yield wire.Difference(kind=kind, name=name, values=values)


def _arguments(commands: Sequence[Sequence[str]]) -> Iterator[wire.Difference]:
    """Yield the arguments one by one where all commands have as many, else the commands from where they differ."""
    if len({len(argv) for argv in commands}) == 1:
        for place, values in enumerate(zip(*commands, strict=True)):
            yield wire.Difference(kind="command", name=f"argument {place}", values=list(values))
        return
    same = sum(1 for _ in takewhile(lambda values: len(set(values)) == 1, zip(*commands, strict=False)))
    rests = [shlex.join(argv[same:]) for argv in commands]
    yield wire.Difference(kind="command", name="arguments", values=[rest or NONE for rest in rests])


def _variables(tables: Sequence[Mapping[str, str]]) -> Iterator[wire.Difference]:
    for name in dict.fromkeys(name for table in tables for name in table):
        yield wire.Difference(kind="variable", name=name, values=_letters([table.get(name) for table in tables]))


def _letters(values: Sequence[str | None]) -> list[str]:
    """Return a letter for each value, the same one for equal values."""
    known = list(dict.fromkeys(value for value in values if value is not None))
    return [NONE if value is None else ascii_uppercase[known.index(value)] for value in values]


def code_changes(specs: Sequence[JobSpec]) -> list[list[str] | None]:
    """Return for each job how its source differs from that of the first one, as lines of a unified diff."""
    first = specs[0].source.splitlines()
    return [_changes(first, spec.source.splitlines()) for spec in specs]


def _changes(before: Sequence[str], after: Sequence[str]) -> list[str] | None:
    if before == after:
        return []
    if max(len(before), len(after)) > MAX_LINES:
        return None
    return list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
