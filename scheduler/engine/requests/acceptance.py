"""Acceptance of the parts of a submission: program, packages, sizes, image, and trials of a sweep; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import PurePosixPath
from typing import Final

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from springtide.scheduler import own_outputs, resuming, wire, wording
from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.engine.state.line_without_gpus import most_at_a_time
from springtide.scheduler.model import Node
from springtide.scheduler.population import Population, why_invalid
from springtide.scheduler.refusal import Refusal, invalid_field
from springtide.scheduler.resources.per_gpu import ROUNDING, UNSPECIFIED, PerGpu, nearest
from springtide.scheduler.store.records import JobSpec, TrialsSpec
from springtide.scheduler.store.tables import ProjectRecord
from springtide.scheduler.wire import ImageContents
from springtide.scheduler.wire.submission import NEEDS_GPUS, JobOptions
from springtide.scheduler.wording import LONG_GIVEN, given

MAX_LENGTH: Final = 200
"""Maximum length of one requirement, in characters."""
COMPARISONS: Final = ("<", ">", "=", "!", "~")
EXPECTED: Final = "Name packages with versions, such as numpy, 'torch>=2.4' or 'transformers[torch]==4.46.*'."
MAX_SHOWN = 12
"""Maximum number of patterns that a refusal names."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@+-]*", re.ASCII)
_PATTERN = re.compile(r"[A-Za-z0-9*][A-Za-z0-9._/:@+*-]*", re.ASCII)
MAX_NAMES = 64
"""Maximum number of parameters of one trial."""


def check_program(submission: wire.Submission, settings: EngineSettings) -> None:
    """Raise `Refusal` for a program that no machine can run, or whose parts are too large."""
    _check_texts(submission, settings)
    image = None if settings.images is None else submission.image or ""
    missing = wire.missing_program(submission.environment, submission.argv[0], image, submission.requirements)
    if missing is not None:
        raise invalid_field("argv", *missing)
    _check_files(submission.files, settings)
    if submission.resume is not None:
        wrong = resuming.problem(submission.resume, submission.kind, submission.argv)
        if wrong is not None:
            raise invalid_field("resume", *wrong)


def checked_outputs(patterns: Sequence[str]) -> tuple[str, ...]:
    """Return the patterns of outputs. Raises `Refusal` for one that is no path in the working directory."""
    for pattern in patterns:
        if why := own_outputs.problem(pattern):
            raise invalid_field(
                "outputs", f"The pattern {given(pattern, LONG_GIVEN)} {why}.", "Examples: runs/**, *.pt, **/*.csv"
            )
    return tuple(patterns)


def _check_texts(submission: wire.Submission, settings: EngineSettings) -> None:
    if submission.key is not None and not (
        wording.is_printable(submission.key) and 0 < len(submission.key) <= wire.MAX_NAME
    ):
        raise invalid_field("key", f"The key is empty, longer than {wire.MAX_NAME} or has control characters.")
    _count_bytes("source", submission.source.replace("\0", ""))
    if not submission.argv or not submission.argv[0]:
        raise invalid_field("argv", "There is no command to run.")
    size = sum(_count_bytes("argv", word) + 1 for word in submission.argv)
    if size > settings.max_argv_bytes:
        raise invalid_field(
            "argv", f"The command has {size} bytes; at most {settings.max_argv_bytes} are allowed."
        )
    if not submission.files and any("{code}" in text for text in (*submission.argv, *submission.env.values())):
        raise invalid_field(
            "files", "The command uses {code}, but no files were sent.", "Send the files that it runs."
        )
    _check_env(submission.env, settings)
    cwd = submission.cwd
    if cwd is not None and (not _count_bytes("cwd", cwd) or not cwd.startswith("/")):
        raise invalid_field(
            "cwd",
            f"The working directory {wording.given(cwd, wording.LONG_GIVEN)} is not an absolute path.",
            "Give the whole path, from /.",
        )


def _count_bytes(field: str, text: str) -> int:
    """Return the size of a text. Raises `Refusal` for text that no operating system takes."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise invalid_field(field, f"{field} has characters that are not text.") from None
    if "\0" in text:
        raise invalid_field(field, f"{field} has a NUL character.")
    return size


def _check_env(env: Mapping[str, str], settings: EngineSettings) -> None:
    for name in env:
        if not name or "=" in name or not wording.is_printable(name):
            raise invalid_field("env", f"{wording.given(name)} cannot be the name of an environment variable.")
    size = sum(_count_bytes("env", name) + _count_bytes("env", value) + 2 for name, value in env.items())
    if size > settings.max_env_bytes:
        raise invalid_field(
            "env",
            f"The environment has {size} bytes; at most {settings.max_env_bytes} are allowed.",
            "Send large values as files.",
        )


def _check_files(files: Mapping[str, bytes], settings: EngineSettings) -> None:
    if len(files) > settings.max_files:
        raise invalid_field("files", f"{len(files)} files were sent; at most {settings.max_files} are allowed.")
    total = sum(len(content) for content in files.values())
    if total > settings.max_files_bytes:
        raise Refusal(
            413,
            "too_large",
            f"The files have {total} bytes together; at most {settings.max_files_bytes} are allowed.",
            field="files",
            hint="Put data on a disk that the job can read, and send code only.",
        )
    for name in files:
        _check_file_name(name)
    folders = {str(parent) for name in files for parent in PurePosixPath(name).parents}
    both = folders & files.keys()
    if both:
        raise invalid_field("files", f"{wording.given(min(both))} is sent as a file and as a folder.")


def _check_file_name(name: str) -> None:
    parts = name.split("/")
    if not name or name.startswith("/") or not wording.is_printable(name) or "\\" in name:
        raise invalid_field(
            "files",
            f"{wording.given(name, wording.LONG_GIVEN)} cannot be a file's name.",
            "Use relative paths with forward slashes.",
        )
    if any(part in {"", ".", ".."} for part in parts):
        raise invalid_field(
            "files",
            f"The path {wording.given(name, wording.LONG_GIVEN)} leaves the job's own folder or is not plain.",
            "Leave out “.” and “..”.",
        )
    if any(len(part.encode()) > 255 for part in parts) or len(name.encode()) > 1024:
        raise invalid_field("files", f"The path {wording.given(name, 60)} is too long.")


def check_lineage(lineage: Sequence[str], settings: EngineSettings) -> None:
    """Raise `Refusal` if the jobs whose programs led to a submission are more than the pool allows."""
    most = settings.job_depth
    if len(lineage) <= most:
        return
    if not most:
        raise Refusal(403, "too_deep", "Jobs of this pool may not submit jobs.", hint="Submit it from a notebook.")
    raise Refusal(
        403,
        "too_deep",
        f"The job {lineage[-1]} may not submit jobs: {wording.count(len(lineage) - 1, 'job')} led to it, each "
        f"submitted by the one before. This pool allows {wording.count(most, 'such step')}.",
        hint="Submit all jobs from the first one, or from a notebook.",
    )


def default_name(submission: wire.Submission) -> str:
    """Return the default name of a job: that of its script, else of its command."""
    names = [PurePosixPath(word).name for word in submission.argv if not word.startswith("-")]
    scripts = [name for name in names if name.endswith((".py", ".sh", ".ipynb"))]
    return wire.named_after((scripts or names or [""])[0])


def checked_requirements(given: Sequence[str], *, images: bool) -> tuple[str, ...]:
    """Return requirements in one spelling, sorted, each once. ``images`` says that jobs run in images.

    Raises `Refusal` for options of pip, paths and addresses, and for any requirement of a job in an image.
    """
    if given and images:
        raise _refusal(
            "Jobs of this pool run in images, into which nothing is installed.",
            "Choose an image that has the packages: image=…, or --image in a terminal.",
        )
    return tuple(sorted({_spelled(text.strip()) for text in _whole(given)}))


def _whole(given: Sequence[str]) -> Sequence[str]:
    """Return requirements as they were before text was divided at commas: ``torch>=2,<3``, ``a[b,c]``."""
    found: list[str] = []
    for text in given:
        if found and (text.lstrip().startswith(COMPARISONS) or found[-1].count("[") > found[-1].count("]")):
            found[-1] = f"{found[-1]},{text}"
        else:
            found.append(text)
    return found


def _spelled(text: str) -> str:
    shown = wording.given(text)
    if text.startswith("-"):
        raise _refusal(f"{shown} is an option of pip, not a package.", f"An administrator sets those. {EXPECTED}")
    try:
        found = Requirement(text) if len(text) <= MAX_LENGTH else None
    except InvalidRequirement:
        found = None
    if found is None:
        raise _refusal(f"{shown} is no package that can be required.", EXPECTED)
    if found.url is not None:
        raise _refusal(
            f"{shown} names an address.",
            "Packages come from the index that an administrator chose. Name the package alone, or put its modules "
            "beside the code: they are sent along.",
        )
    found.name = canonicalize_name(found.name)
    return str(found)


def _refusal(message: str, hint: str) -> Refusal:
    return Refusal(422, "invalid", message, field="requirements", hint=hint)


def nodes_with_enough(spec: JobSpec, nodes: Sequence[Node], of_type: str) -> Sequence[Node]:
    """Return the nodes whose GPUs come with what the job asks for.

    Raises `Refusal` with the numbers if there is none. ``nodes`` are those of one GPU type, at least one, and
    ``of_type`` are these GPUs in words, such as " h100 GPUs", or empty if the pool has one type.
    """
    options = spec.options
    asked = options.per_gpu
    if asked == UNSPECIFIED:
        return nodes
    nodes = _nodes_with_rdma(spec, nodes, of_type)
    suitable = [node for node in nodes if node.per_gpu.holds(asked)]
    if suitable:
        return suitable
    most = nearest(asked, (node.per_gpu for node in nodes))
    gpus = wording.gpus(options.gpus)
    wanted = wording.cores_and_memory(options.cpus or 0.0, options.memory or 0)
    there = wording.cores_and_memory(most.cpus * options.gpus, most.memory * options.gpus)
    each = wording.cores_and_memory(most.cpus, most.memory)
    node = f"train node{' with RDMA' if options.rdma else ''}"
    raise invalid_field(
        "cpus" if asked.cpus > most.cpus > 0 else "memory",
        f"{wanted} were asked for with {gpus} per worker, which no {node} has for {gpus}: the nearest "
        f"has {there}.",
        f"Ask for less{_with_more_gpus(options, nodes)}: each GPU comes with {each} there.",
    )


def _with_more_gpus(options: JobOptions, nodes: Sequence[Node]) -> str:
    """Return ``, or for 4 GPUs per worker``, which come with what a worker asks for; empty if no node has them."""
    fitting = [
        number
        for node in nodes
        for number in range(options.gpus + 1, node.gpus + 1)
        if node.per_gpu.holds(PerGpu((options.cpus or 0.0) / number, (options.memory or 0) / number))
    ]
    return f", or for {wording.gpus(min(fitting))} per worker" if fitting else ""


def _nodes_with_rdma(spec: JobSpec, nodes: Sequence[Node], of_type: str) -> Sequence[Node]:
    """Return the nodes that have RDMA for workers of this size; all if the job asks for none."""
    options = spec.options
    asked = PerGpu(rdma=options.per_gpu.rdma)
    suitable = [node for node in nodes if node.per_gpu.holds(asked)]
    if suitable:
        return suitable
    most = max(nodes, key=lambda node: node.per_gpu.rdma)
    if not most.per_gpu.rdma:
        raise invalid_field(
            "rdma",
            f"RDMA was asked for, and no train node{of_type and f' with{of_type}'} has it.",
            "Leave out rdma, or ask an admin of this hub which nodes have network cards for it.",
        )
    least = ceil(1 / (most.per_gpu.rdma * ROUNDING))
    workers = wording.count(most.per_gpu.rdma_workers(most.gpus), "worker")
    raise invalid_field(
        "gpus",
        f"RDMA was asked for with {wording.gpus(options.gpus)} per worker; the train node with the most has it "
        f"for {workers} on its {wording.gpus(most.gpus)}.",
        f"Ask for at least {wording.gpus(least)} per worker, or leave out rdma.",
    )


def check_without_gpus(spec: JobSpec, projects: Mapping[str, ProjectRecord], default: int) -> None:
    """Raise `Refusal` for a job without GPUs that can never start, or that asks for what only GPUs have.

    ``default`` is the pool's number of such jobs of a project at a time.
    """
    options = spec.options
    if most_at_a_time(spec.project, projects.get, default) == 0:
        raise _refused_without_gpus(
            "gpus",
            f"Jobs of project {wording.given(spec.project)} have at least 1 GPU per worker: none without GPUs may "
            "run.",
            "Ask for a GPU, or ask an administrator of the project to allow jobs without GPUs.",
        )
    if options.workers > 1:
        raise _refused_without_gpus(
            "workers",
            f"A job without GPUs has one worker; {options.workers} were asked for.",
            "Send several jobs, or a sweep: they run beside each other.",
        )
    for field in NEEDS_GPUS:
        if asked := getattr(options, field):
            shown = wording.given(wire.OPTIONS[field].text(asked))
            raise _refused_without_gpus(
                field,
                f"{field} is {shown}, which is about GPUs, and the job asks for none.",
                f"Leave out {field}, or ask for GPUs.",
            )


def no_test_run() -> Refusal:
    """Return the refusal of a test run of a job without GPUs."""
    return _refused_without_gpus(
        "test_run",
        "A job without GPUs has no test run: it waits for no GPU that a mistake could waste.",
        "Leave out test_run; try a part of the data first.",
    )


def _refused_without_gpus(field: str, message: str, hint: str) -> Refusal:
    return Refusal(422, "invalid", message, field=field, hint=hint)


def choose_image(asked: str | None, images: Sequence[str] | None) -> str | None:
    """Return the image a job runs in: ``asked``, or the first of the list if that is None.

    ``images`` are patterns; None on one machine, where the result is None too. Raises `Refusal` (400) for an image
    that is not on the list.
    """
    if images is None:
        if asked is None:
            return None
        raise _image_refused(
            f"The image {given(asked, LONG_GIVEN)} has no meaning here: this pool runs jobs on one machine, "
            "without containers.",
            "Leave the image out; the job runs with the programs of this machine.",
        )
    if asked is None:
        return images[0]
    if _NAME.fullmatch(asked) is None:
        raise _image_refused(f"{given(asked, LONG_GIVEN)} is no name of an image.", f"Write it like {images[0]}.")
    if not any(matches(asked, pattern) for pattern in images):
        more = "" if len(images) <= MAX_SHOWN else f" and {len(images) - MAX_SHOWN} more"
        raise _image_refused(
            f"The image {given(asked, LONG_GIVEN)} is not on this pool's list: "
            f"{', '.join(images[:MAX_SHOWN])}{more}.",
            "Name one of the list, or ask an admin of this hub to add it.",
        )
    return asked


def matches(image: str, pattern: str) -> bool:
    """Return whether an image matches a pattern, in which ``*`` matches any characters."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), image) is not None


def declared_contents(image: str | None, declared: Mapping[str, ImageContents]) -> ImageContents | None:
    """Return what an admin has declared of an image, by patterns of which the first that matches counts."""
    if image is None:
        return None
    return next((contents for pattern, contents in declared.items() if matches(image, pattern)), None)


def pattern_list_error(images: Sequence[str]) -> str | None:
    """Return the error of a list of patterns, None if it is valid."""
    if not images:
        return "the list is empty; name at least the image that jobs run in by default"
    if "*" in images[0]:
        default = given(images[0], LONG_GIVEN)
        return f"{default} comes first and is the default, so it cannot be a pattern; name one image"
    wrong = wrong_pattern(images)
    return None if wrong is None else f"{given(wrong, LONG_GIVEN)} is no name or pattern of images"


def wrong_pattern(images: Sequence[str]) -> str | None:
    """Return the first text that is no name or pattern of images, None if all are."""
    return next((pattern for pattern in images if _PATTERN.fullmatch(pattern) is None), None)


def _image_refused(message: str, hint: str) -> Refusal:
    return Refusal(400, "image", message, field="image", hint=hint)


def validate_trials(submission: wire.Submission) -> tuple[TrialsSpec | None, bytes | None]:
    """Return what the store keeps of a sweep's trials, and their parameters as JSON if they are known beforehand.

    Without a sweep both are None. Raises `Refusal` for parameters that do not fit the number of trials,
    or are too many, and for a population that cannot be trained.
    """
    trials = submission.trials
    if trials is None:
        return None, None
    if not trials.metric.isprintable():
        raise _trials_refused("The metric's name has control characters.", "Use the name of a reported value.")
    spec = TrialsSpec(
        number=trials.number,
        at_most=trials.at_most,
        at_least=trials.at_least,
        metric=trials.metric,
        goal=trials.goal,
        history=trials.history,
        known=trials.parameters is not None,
        population=trials.population,
    )
    if trials.population is not None:
        _check_population(submission, trials, trials.population)
    if trials.parameters is None:
        return spec, None
    if len(trials.parameters) < trials.number:
        raise _trials_refused(
            f"There are {wording.count(trials.number, 'trial')}, but parameters of {len(trials.parameters)}.",
            "Send those of each trial, or leave them out.",
        )
    if any(len(each) > MAX_NAMES for each in trials.parameters):
        raise _trials_refused(f"A trial has more than {MAX_NAMES} parameters.", "Put larger settings into a file.")
    body = msgspec.json.encode(trials.parameters)
    if len(body) > wire.MAX_PARAMETERS:
        raise Refusal(
            413,
            "too_large",
            f"The parameters have {len(body)} bytes together; at most {wire.MAX_PARAMETERS} are allowed.",
            field="trials",
            hint="Send the numbers that the trials differ in, and what they share as a file.",
        )
    return spec, body


def _check_population(submission: wire.Submission, trials: wire.Trials, population: Population) -> None:
    """Raise `Refusal` for a population that cannot be trained."""
    if why := why_invalid(population):
        raise _trials_refused(why, "Change the space of the population.")
    if not trials.metric or not trials.goal:
        lacks, hint = ("goal", "goal='minimize'") if trials.metric else ("metric", "metric='loss'")
        raise _trials_refused(
            f"A population has no {lacks}, by which its members are compared.",
            f"Name {'a direction' if trials.metric else 'a number that the training reports'}: {hint}.",
        )
    if trials.number != population.trials:
        raise _trials_refused(
            f"There are {wording.count(trials.number, 'trial')}, and {population.members} members train for "
            f"{wording.count(population.generations, 'generation')}.",
            f"Send {wording.count(population.trials, 'trial')}: one for each member in each generation.",
        )
    if trials.parameters is not None or trials.history:
        raise _trials_refused(
            "A population comes with the parameters or the history of its trials.",
            "Leave them out: the pool chooses the parameters of each generation.",
        )
    if submission.kind != "function":
        raise _trials_refused(
            f"A population trains a function; this is a {submission.kind}.",
            "Send it from Python: pool.evolve(train, …).",
        )
    if submission.workers > 1:
        raise _trials_refused(
            f"Each member of a population trains in one process; {submission.workers} workers were asked for.",
            "Leave workers out. One process can use several GPUs: gpus=2.",
        )


def _trials_refused(message: str, hint: str) -> Refusal:
    return Refusal(422, "invalid", message, field="trials", hint=hint)
