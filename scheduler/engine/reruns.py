"""Running a job again, and how several runs differ."""

from __future__ import annotations

import asyncio
import difflib
import itertools
import re
import shlex
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from string import ascii_uppercase
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import structs

from springtide.scheduler import wire, wording
from springtide.scheduler.arguments import (
    Argument,
    BadArgument,
    Typed,
    changed,
    program_words,
    shown_words,
    typed_words,
)
from springtide.scheduler.engine.environments import environment_sent
from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.engine.state.job_lookup import JobLookup
from springtide.scheduler.engine.store_threads import StoreThreads
from springtide.scheduler.project_tree import TreeError, file_digests
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.sentences.reruns import fork_mark, fork_number
from springtide.scheduler.settings import DAY, MIB
from springtide.scheduler.store import FilesGoneError
from springtide.scheduler.store.queries import reading
from springtide.scheduler.store.queries import trials as sweep_trials
from springtide.scheduler.store.records import ForkRef, JobRecord, JobSpec, OptionDifference, RerunRef
from springtide.scheduler.wording import listed

Trees = Mapping[str, Mapping[str, str] | None]
"""Digests of the files of project trees by path, by that of the tree; None for one that is kept no longer."""

VARIABLES = "env"
_NUMBER = r" \((\d{1,9})\)"
"""The number in the name of a fork."""


MAX_LINES = 1000
"""Maximum number of lines of a source for a comparison by line."""
MAX_VALUE = 2000
"""Maximum length of a reported value, in characters."""
NONE = "none"
MOST_PROJECT_FILES = 20
"""Maximum number of files of projects that a comparison names."""
SAME_FILES, OWN_FILES = "same files", "own files"
NOT_GIVEN = "not given"
"""Stands in comparisons for an argument that a job was not given: its program may have a default."""


def options_of(spec: JobSpec) -> dict[str, Any]:
    """Return the options of a job by name, its name and project among them."""
    return {"name": spec.name, "project": spec.project, **structs.asdict(spec.options)}


def name_again(first: JobSpec, fork: ForkRef | None = None, taken: Container[str] = ()) -> str:
    """Return the name of a run again, or of a fork from this checkpoint, if none is given.

    That of a fork ends with its checkpoint, and with a number if the name is ``taken``; a run again or a fork of
    that fork does not repeat them.
    """
    names = (_numbered(first, fork, number) for number in itertools.count(1))
    return next(name for name in names if name not in taken)


def name_without_fork(first: JobSpec) -> str:
    """Return the name of a job without the checkpoint of a fork, and without its number."""
    if first.fork is None:
        return first.name
    return re.sub(rf"{re.escape(_mark(first.fork))}(?:{_NUMBER})?\Z", "", first.name)


def _numbered(first: JobSpec, fork: ForkRef | None, number: int) -> str:
    mark = "" if fork is None else f"{_mark(fork)}{fork_number(number)}"
    return name_without_fork(first)[: wire.MAX_NAME - len(mark)] + mark


def _is_unsaid(name: str, first: JobSpec, fork: ForkRef | None) -> bool:
    """Return whether a run again or a fork has this name unless another one is given."""
    number = re.search(rf"{_NUMBER}\Z", name)
    return name in {_numbered(first, fork, 1), _numbered(first, fork, int(number[1]) if number else 1)}


def _mark(fork: ForkRef) -> str:
    return fork_mark(fork.checkpoint, fork.step)[: wire.MAX_NAME // 2]


def with_changes(spec: JobSpec, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a run again; variables are added to those of the first run, a blank name is none."""
    options = {**options_of(spec), "name": name_again(spec)}
    variables = {**options[VARIABLES], **changes.get(VARIABLES, {})}
    named = {name: value for name, value in changes.items() if name != "name" or value.strip()}
    return {**options, **named, VARIABLES: variables}


def with_arguments(spec: JobSpec, typed: Typed) -> JobSpec:
    """Return the spec with other arguments, as people type them. Raises `Refusal` (422)."""
    if not typed:
        return spec
    if spec.trials is not None:
        message = "The arguments of a sweep are those of its trials, which cannot be changed here."
        raise Refusal(422, "invalid", message, field="arguments", hint="Send the sweep again with another space.")
    try:
        words, arguments = changed(spec.kind, spec.argv, spec.arguments, typed)
    except BadArgument as error:
        field = f"arguments.{error.name}"
        raise Refusal(422, "invalid", error.message, field=field, hint=error.hint) from None
    source = shlex.join(typed_words(words, _root(spec))) if spec.kind == "command" else spec.source
    return structs.replace(spec, argv=tuple(words), arguments=arguments, source=source)


def reference(first: JobSpec, again: JobSpec, fork: ForkRef | None = None, typed: Iterable[str] = ()) -> RerunRef:
    """Return a reference to the first run, with the options that differ, and hidden arguments ``typed`` anew."""
    return RerunRef(first.id, first.name, tuple(_changes_between(first, again, fork, typed)), fork)


def repeated(fork: JobSpec, again: JobSpec, typed: Iterable[str] = ()) -> RerunRef:
    """Return the reference of a fork that runs again: to the fork's parent, with all that differs from that."""
    assert fork.rerun is not None
    known = {each.name: each for each in fork.rerun.changes}
    for each in _changes_between(fork, again, fork.rerun.fork, typed):
        earlier = known.get(each.name)
        if earlier is None or not each.before:
            known[each.name] = each
        elif earlier.before == each.after:
            del known[each.name]
        else:
            known[each.name] = OptionDifference(each.name, earlier.before, each.after)
    return replace(fork.rerun, changes=tuple(known.values()))


def _changes_between(
    first: JobSpec, again: JobSpec, fork: ForkRef | None, typed: Iterable[str]
) -> list[OptionDifference]:
    before, after = options_of(first), options_of(again)
    differences = [
        OptionDifference(name, option.shown(before[name]), option.shown(after[name]))
        for name, option in wire.OPTIONS.items()
        if name != VARIABLES
        and before[name] != after[name]
        and not (name == "name" and _is_unsaid(again.name, first, fork))
    ]
    names = dict.fromkeys([*first.arguments, *again.arguments])
    differences += [
        OptionDifference(name, _shown(first.arguments.get(name)), _shown(again.arguments.get(name)))
        for name in names
        if first.arguments.get(name) != again.arguments.get(name)
    ]
    differences += [
        OptionDifference(name, "", "typed anew")
        for name in typed
        if (argument := again.arguments.get(name)) is not None
        and argument.hidden
        and first.arguments.get(name) == argument
    ]
    others = [name for name, value in after[VARIABLES].items() if before[VARIABLES].get(name) != value]
    if others:
        differences.append(OptionDifference(VARIABLES, "", f"with another {listed(others)}"))
    return differences


def _shown(argument: Argument | None) -> str:
    return NONE if argument is None else argument.shown


class RerunCalls:
    """Makes the submissions of runs again from the records and files of earlier jobs, and compares jobs."""

    def __init__(self, store: StoreThreads, jobs: JobLookup, settings: EngineSettings) -> None:
        self._threads = store
        self._jobs = jobs
        self._settings = settings

    async def first(self, job_id: str) -> JobSpec:
        """Return what a job was submitted with. Raises `Refusal` if it cannot be run again by itself."""
        return (await self._first(job_id)).spec

    async def names(self, user: str, stem: str) -> frozenset[str]:
        """Return the names of a person's jobs that begin like this."""
        return await self._threads.read(reading.names, user, stem)

    async def compared(self, jobs: Sequence[wire.Job]) -> wire.Comparison:
        """Return jobs side by side, with what differs among them. Raises `Refusal` for one that is gone."""
        records = [await self._jobs.get(job.id) for job in jobs]
        code = await asyncio.to_thread(code_changes, [record.spec for record in records])
        known = {digest for record in records if (digest := _tree(record.spec)) is not None}
        trees = {each: await self._threads.call(self._digests_in, each) for each in known if len(known) > 1}
        return wire.Comparison(jobs=list(jobs), differences=differences(records, trees), code=code)

    def _digests_in(self, tree: str) -> Mapping[str, str] | None:
        """Return digests of the files of a project tree by path; None if it is kept no longer."""
        try:
            return file_digests(self._threads.store.content(tree))
        except (FilesGoneError, TreeError):
            return None

    async def _first(self, job_id: str) -> JobRecord:
        job = await self._jobs.get(job_id)
        if job.sweep is not None:
            raise Refusal(
                409,
                "trial",
                f"The job {wording.given(job_id)} is a trial of the sweep {wording.given(job.sweep)}, and is "
                "not run again by itself.",
                hint="Retry the failed trials of the sweep while it is unfinished, send them as another sweep, or "
                "run the whole sweep again.",
            )
        return job

    async def submission(
        self,
        job_id: str,
        options: Mapping[str, Any],
        key: str | None,
        typed: Typed = MappingProxyType({}),
        *,
        files: bool = True,
    ) -> wire.Submission:
        """Return the submission of a run again: as the first one, except for these options and typed arguments.

        Unless ``files``, it has none. Raises `Refusal` for an argument that cannot be changed, and if the files of
        the job are kept no longer.
        """
        job = await self._first(job_id)
        spec = with_arguments(job.spec, typed)
        return wire.Submission(
            **with_changes(spec, options),
            argv=list(spec.argv),
            kind=spec.kind,
            cwd=spec.cwd,
            files=dict(await self._files(spec)) if files else {},
            source=spec.source,
            arguments=dict(spec.arguments),
            key=key,
            environment=environment_sent(spec),
            trials=await self._trials(job),
            tree=spec.tree if files else None,
        )

    async def _files(self, spec: JobSpec) -> Mapping[str, bytes]:
        """Return the files of a job. Raises `Refusal` if they, or its project tree, are kept no longer."""
        try:
            if spec.tree is not None and spec.tree.digest is not None:
                await self._threads.call(self._threads.store.check_stored, spec.tree.digest)
            if spec.bundle is None:
                return {}
            return await self._threads.call(self._threads.store.files, spec.bundle)
        except FilesGoneError:
            kept = wording.duration(self._settings.keep_files_days * DAY)
            raise Refusal(
                410,
                "files_gone",
                f"The files of job {wording.given(spec.id)} are not in the pool any more, so it cannot be run "
                f"again. Those of an ended job are kept for {kept}, as long as all of one person take less than "
                f"{self._settings.ended_bytes_per_user / MIB:.0f} MiB.",
                hint="Submit it once more from the notebook or directory it came from.",
            ) from None

    async def _trials(self, job: JobRecord) -> wire.Trials | None:
        trials, standing = job.spec.trials, job.standing.sweep
        if trials is None or standing is None:
            return None
        body = await self._threads.read(sweep_trials.parameters, job.id) if trials.known else None
        return msgspec.convert(
            {
                "number": standing.number,
                "at_most": standing.at_most,
                "at_least": standing.at_least,
                "metric": trials.metric,
                "goal": trials.goal,
                "parameters": None if body is None else msgspec.json.decode(body),
                "history": trials.history,
                "population": trials.population,
            },
            wire.Trials,
        )


def differences(jobs: Sequence[JobRecord], trees: Trees = MappingProxyType({})) -> list[wire.Difference]:
    """Return the differences among jobs, the parameters of trials first; ``trees`` are those that are known."""
    specs = [job.spec for job in jobs]
    options = [options_of(spec) for spec in specs]
    found = [
        *_by_name("argument", [job.arguments for job in jobs], lambda argument: argument.shown),
        *(
            wire.Difference(kind="option", name=name, values=[option.shown(each[name]) for each in options])
            for name, option in wire.OPTIONS.items()
            if name not in {VARIABLES, "name"}
        ),
        *_variables([each[VARIABLES] for each in options]),
        *_commands(specs),
    ]
    differing = [
        wire.Difference(kind=each.kind, name=each.name, values=[value[:MAX_VALUE] for value in each.values])
        for each in found
        if len(set(each.values)) > 1
    ]
    return [*differing, *_files(jobs, trees)]


def _files(jobs: Sequence[JobRecord], trees: Trees) -> Iterator[wire.Difference]:
    """Yield which jobs have the same files beside their project, and which the same files of the project.

    Of the project's files the differing ones are named, unless their trees are kept no longer.
    """
    specs = [job.spec for job in jobs]
    bundles, digests = [spec.bundle for spec in specs], [_tree(spec) for spec in specs]
    if len(set(bundles)) > 1 and not _is_one_code(jobs):
        yield wire.Difference(kind="files", name="files", values=_shared(bundles))
    if len(set(digests)) == 1:
        return
    contents = [{} if digest is None else trees.get(digest) for digest in digests]
    found = [] if None in contents else list(_project_files([each or {} for each in contents]))
    yield from found[:MOST_PROJECT_FILES]
    if not 0 < len(found) <= MOST_PROJECT_FILES:
        yield wire.Difference(kind="files", name="project tree", values=_shared(digests))


def _project_files(contents: Sequence[Mapping[str, str]]) -> Iterator[wire.Difference]:
    """Yield the files that differ, by path, from their digests in each project."""
    for path in sorted({path for each in contents for path in each}):
        values = [each.get(path) for each in contents]
        if len(set(values)) > 1:
            yield wire.Difference(kind="file", name=path, values=_letters(values))


def _is_one_code(jobs: Sequence[JobRecord]) -> bool:
    """Return whether these are runs of one function whose files differ only where its arguments do.

    Its files have the arguments in them, so its code is the same, as far as can be seen.
    """
    specs = [job.spec for job in jobs]
    if len({(spec.kind, spec.source) for spec in specs}) > 1 or specs[0].kind != "function":
        return False
    if None in map(_tree, specs):
        return False
    arguments = [tuple((name, each.text) for name, each in sorted(job.arguments.items())) for job in jobs]
    return len({*zip(arguments, (spec.bundle for spec in specs), strict=True)}) == len(set(arguments))


def _tree(spec: JobSpec) -> str | None:
    return None if spec.tree is None else spec.tree.digest


def _root(spec: JobSpec) -> str | None:
    return None if spec.tree is None else spec.tree.root


def _by_name(
    kind: str, tables: Sequence[Mapping[str, Any]], shown: Callable[[Any], str]
) -> Iterator[wire.Difference]:
    for name in dict.fromkeys(name for table in tables for name in table):
        values = [shown(table[name]) if name in table else NOT_GIVEN for table in tables]
        yield wire.Difference(kind=kind, name=name, values=values)


def _commands(specs: Sequence[JobSpec]) -> Iterator[wire.Difference]:
    """Yield the commands from the first difference that is none of arguments, which are compared by name."""
    shown = [shown_words(spec.kind, typed_words(spec.argv, _root(spec)), spec.source) for spec in specs]
    commands = [program_words(spec.kind, words) for spec, words in zip(specs, shown, strict=True)]
    same = sum(1 for _ in takewhile(lambda values: len(set(values)) == 1, zip(*commands, strict=False)))
    rests = [shlex.join(argv[same:]) for argv in commands]
    yield wire.Difference(kind="command", name="command", values=[rest or NONE for rest in rests])


def _variables(tables: Sequence[Mapping[str, str]]) -> Iterator[wire.Difference]:
    for name in dict.fromkeys(name for table in tables for name in table):
        yield wire.Difference(kind="variable", name=name, values=_letters([table.get(name) for table in tables]))


def _shared(digests: Sequence[str | None]) -> list[str]:
    """Return in words which jobs have the same files; groups of jobs with the same files have letters."""
    groups = [digest for digest, number in Counter(filter(None, digests)).items() if number > 1]
    same = [SAME_FILES] if len(groups) == 1 else [f"{SAME_FILES} ({letter})" for letter in ascii_uppercase]
    words = dict(zip(groups, same, strict=False))
    return [NONE if digest is None else words.get(digest, OWN_FILES) for digest in digests]


def _letters(values: Sequence[str | None]) -> list[str]:
    """Return a letter for each value, the same one for equal values."""
    known = list(dict.fromkeys(value for value in values if value is not None))
    return [NONE if value is None else ascii_uppercase[known.index(value)] for value in values]


def code_changes(specs: Sequence[JobSpec]) -> list[list[str] | None]:
    """Return for each job how its code differs from that of the first one, as lines of a unified diff.

    A command is compared by its words, and has no code here.
    """
    codes = [None if spec.kind == "command" else spec.shown_source.splitlines() for spec in specs]
    return [_changes(codes[0], code) for code in codes]


def _changes(before: Sequence[str] | None, after: Sequence[str] | None) -> list[str] | None:
    if before is None or after is None or before == after:
        return []
    if max(len(before), len(after)) > MAX_LINES:
        return None
    return list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
