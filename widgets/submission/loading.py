"""Whether a job can load a payload: found at the submission, where the notebook can still mend it.

A payload is first read, which takes milliseconds. It is loaded in a fresh process only if that can fail: if it has
objects of the user's own classes with methods of their own for pickling, or modules from unusual places. Such a
process takes a tenth of a second, and seconds if it imports a framework; most submissions do without.
"""

from __future__ import annotations

import io
import json
import pickletools
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from springtide.scheduler.wording import article, size
from springtide.training.loading import ERRORS, MISSING, MODULES
from springtide.widgets.errors import CaptureError
from springtide.widgets.submission.definitions import Parts, Pickled
from springtide.widgets.submission.explain import HINT, find_unloadable

MAX_STEPS: Final = 100_000
"""Maximum number of opcodes of a payload that are read."""
MAX_BYTES: Final = 64 << 20
"""Maximum size of a payload that is loaded in a process of its own, in bytes."""
LOAD_S: Final = 30.0
"""Time for that process, in seconds."""
WHOLE = "whole"
STRINGS = frozenset({"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"})
GETS = frozenset({"BINGET", "LONG_BINGET"})


def names_by_reference(payload: bytes) -> dict[str, set[str]]:
    """Return the names that a payload has by reference only, by module, as far as it is read."""
    found: dict[str, set[str]] = {}
    memo: list[str | None] = []
    last: list[str | None] = [None, None]
    for name, argument in _steps(payload):
        if name == "MEMOIZE":
            memo.append(last[-1])
        elif name in STRINGS:
            last = [last[-1], argument]
        elif name in GETS:
            last = [last[-1], memo[argument] if argument < len(memo) else None]
        elif name == "STACK_GLOBAL":
            module, qualified = last
            if module and qualified:
                found.setdefault(module, set()).add(qualified)
            last = [None, None]
        elif name != "FRAME":
            last = [last[-1], None]
    return found


def _steps(payload: bytes) -> Iterator[tuple[str, Any]]:
    file = io.BytesIO(payload)
    left = MAX_STEPS
    while file.tell() < len(payload):
        for opcode, argument, _ in pickletools.genops(file):
            yield opcode.name, argument
            left -= 1
            if not left:
                return


def unusual_modules(modules: Iterable[str]) -> list[str]:
    """Return the packages of the modules that are in none of the directories of this Python's packages."""
    usual = [Path(path) for path in {*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix}]
    found = set()
    for package in {module.partition(".")[0] for module in modules}:
        places = _places(package)
        is_usual = any(place.is_relative_to(path) for place in places for path in usual)
        if package not in sys.builtin_module_names and not is_usual:
            found.add(package)
    return sorted(found)


def _places(package: str) -> list[Path]:
    module = sys.modules.get(package)
    file = getattr(module, "__file__", None)
    places = [file] if isinstance(file, str) else list(getattr(module, "__path__", ()))
    return [Path(str(place)) for place in places]


@dataclass(frozen=True, slots=True)
class Tried:
    """The outcome of a trial: the errors of payloads by name, and modules that were not found.

    ``why_not`` says why there was no trial.
    """

    errors: Mapping[str, str] = field(default_factory=dict)
    missing: Sequence[str] = ()
    why_not: str = ""


def tried(payloads: Mapping[str, bytes], modules: Sequence[str], workdir: Path) -> Tried:
    """Load payloads in a fresh process of this Python in that directory, and look for the modules there."""
    total = sum(map(len, payloads.values()))
    if total > MAX_BYTES:
        return Tried(why_not=f"it takes {size(total)}")
    with tempfile.TemporaryDirectory(prefix="springtide-") as made:
        directory = Path(made)
        for name, payload in payloads.items():
            (directory / f"{name}.pkl").write_bytes(payload)
        (directory / MODULES).write_text(json.dumps(list(modules)))
        command = [sys.executable, "-m", "springtide.training.loading", made]
        quiet = subprocess.DEVNULL
        try:
            subprocess.run(
                command, cwd=workdir, stdin=quiet, stdout=quiet, stderr=quiet, timeout=LOAD_S, check=True
            )
            errors = json.loads((directory / ERRORS).read_text())
            missing = json.loads((directory / MISSING).read_text())
        except subprocess.TimeoutExpired:
            return Tried(why_not=f"that takes more than {LOAD_S:.0f} s")
        except subprocess.CalledProcessError as error:
            if error.returncode < 0:
                return Tried(why_not=f"the process that tried it was ended by signal {-error.returncode}")
            return Tried(why_not=f"the process that tried it ended with exit code {error.returncode}")
        except (OSError, ValueError) as error:
            return Tried(why_not=str(error))
    return Tried({name.removesuffix(".pkl"): text for name, text in errors.items()}, missing)


def check_loading(whole: Parts, pickled: Pickled) -> Iterator[str]:
    """Yield notes on what a job may not find. Raises `CaptureError` for what it cannot load, naming it."""
    references = names_by_reference(pickled.data)
    for reference in sorted(references.pop("__main__", ())):
        msg = (
            f"{whole.name} uses `{reference}`{_kind_of(reference, whole.namespaces)}, which pickle finds by this "
            f"name only, and only in this notebook. {HINT}"
        )
        raise CaptureError(msg)
    unusual = unusual_modules(references)
    if not pickled.own_loading and not unusual:
        return
    found = tried({WHOLE: pickled.data} if pickled.own_loading else {}, unusual, whole.workdir)
    if found.errors:
        culprit = find_unloadable(whole.labelled, partial(_errors, whole))
        words = culprit or f"{whole.name} cannot be loaded in a job ({found.errors[WHOLE]})"
        msg = f"{words}. {HINT}"
        raise CaptureError(msg)
    for module in found.missing:
        yield _missing_module(whole.name, module)
    if found.why_not:
        yield f"Not tried here is whether a job can load {whole.name}: {found.why_not}."


def _kind_of(name: str, namespaces: Iterable[Mapping[str, Any]]) -> str:
    """Return the type of a variable of the notebook, for a message."""
    variables = next((names for names in namespaces if name in names), vars(sys.modules["__main__"]))
    return f", {article(type(variables[name]).__qualname__)}" if name in variables else ""


def _missing_module(name: str, module: str) -> str:
    places = _places(module)
    place = f" from {places[0].parent}" if places else ""
    return (
        f"{name} needs the module {module}, which this notebook has{place} and a new process of this Python does "
        "not find. Install it, put it into the working directory, or name its directory in env={'PYTHONPATH': …}."
    )


def _errors(whole: Parts, values: Sequence[Any]) -> Mapping[int, str]:
    """Return the errors of loading each value by itself in a fresh process, by its place."""
    payloads: dict[str, bytes] = {}
    for place, value in enumerate(values):
        pickled = replace(whole, function=value, call={}).pickled()
        if isinstance(pickled, Pickled) and pickled.own_loading:
            payloads[str(place)] = pickled.data
    return {int(place): error for place, error in tried(payloads, (), whole.workdir).errors.items()}
