"""Programs that the pool brings to its jobs, in the state directory: the training library, and others in pods."""

from __future__ import annotations

import hashlib
import py_compile
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from springtide.scheduler.executors.files.plain import make_directory, write_tree
from springtide.scheduler.executors.library import LIBRARY, PROGRAMS


def write_programs(
    state: Path, others: Mapping[str, bytes], owner: tuple[int, int] | None, *, readable: bool = False
) -> str:
    """Write the training library and ``others``, unless they are there; return their directory below ``state``.

    With ``readable`` all accounts of the machine can read them, and the library is compiled for jobs of this
    Python's version, which could not keep what they compile. Raises `OSError`.
    """
    content = {**others, **{name: path.read_bytes() for name, path in _modules()}}
    version = f"{sys.implementation.cache_tag}:" if readable else ""
    named = version.encode() + msgspec.json.encode(content, order="deterministic")
    digest = hashlib.sha256(named).hexdigest()[:16]
    make_directory(state / PROGRAMS, 0o711)
    programs = state / PROGRAMS / digest
    if not programs.exists():
        write_tree(programs, {**content, **(_compiled() if readable else {})}, owner, readable=readable)
    return f"{PROGRAMS}/{digest}"


@cache
def _compiled() -> Mapping[str, bytes]:
    """Return the compiled modules of the library by their paths, which Python reads without the source."""
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compiled = {}
    with TemporaryDirectory() as folder:
        file = Path(folder, "compiled")
        for name, path in _modules():
            py_compile.compile(str(path), str(file), dfile=name, doraise=True, invalidation_mode=mode)
            parent, _, module = name.rpartition("/")
            place = f"{parent}/__pycache__/{module.removesuffix('.py')}.{sys.implementation.cache_tag}.pyc"
            compiled[place] = file.read_bytes()
    return compiled


def _modules() -> Iterator[tuple[str, Path]]:
    """Yield the path of each module of the library among the programs, and its file."""
    found = find_spec("springtide.training")
    assert found is not None
    assert found.origin is not None
    source = Path(found.origin).parent
    for path in source.rglob("*.py"):
        yield f"{LIBRARY}/springtide/training/{path.relative_to(source)}", path
