"""Programs that the pool brings to its jobs; among them the training library, which no environment has to have.

``springtide`` is a namespace package: where other parts of it are installed, these stay importable beside it, and
the library is the one that knows this pool.
"""

from __future__ import annotations

import compileall
import hashlib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Final

import msgspec

from springtide.scheduler.executors.files.plain import make_directory, write_tree

PROGRAMS: Final = "programs"
"""Directory of the programs below the state directory, each set of them in a directory named by its digest."""
LIBRARY: Final = "library"
"""Folder of such a set that goes onto the search path for modules."""
SEARCH_PATH: Final = "PYTHONPATH"


def write_programs(
    state: Path, others: Mapping[str, bytes], owner: tuple[int, int] | None, *, readable: bool = False
) -> str:
    """Write the training library and ``others``, unless they are there; return their directory below ``state``.

    With ``readable`` all accounts of the machine can read them. Raises `OSError`.
    """
    source = _source()
    files = {
        f"{LIBRARY}/springtide/training/{path.relative_to(source)}": path.read_bytes()
        for path in source.rglob("*.py")
    }
    content = {**others, **files}
    digest = hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()[:16]
    make_directory(state / PROGRAMS, 0o711)
    programs = state / PROGRAMS / digest
    write_tree(programs, content, owner, readable=readable)
    if readable:
        _compile(programs)
    return f"{PROGRAMS}/{digest}"


def with_library(environment: Mapping[str, str], library: str) -> dict[str, str]:
    """Return the variables of a job with the library at the end of its search path for modules."""
    own = environment.get(SEARCH_PATH)
    return {**environment, SEARCH_PATH: f"{own}:{library}" if own else library}


def _compile(programs: Path) -> None:
    """Compile the library for jobs of this Python's version: they could not keep what they compile."""
    mode = PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(programs / LIBRARY, quiet=2, invalidation_mode=mode)
    for path in programs.rglob("__pycache__"):
        path.chmod(0o755)
        for compiled in path.iterdir():
            compiled.chmod(0o644)


def _source() -> Path:
    found = find_spec("springtide.training")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent
