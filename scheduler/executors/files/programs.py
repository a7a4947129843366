"""Programs that the pool brings to its jobs, in the state directory: the training library, and others in pods."""

from __future__ import annotations

import compileall
import hashlib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from py_compile import PycInvalidationMode

import msgspec

from springtide.scheduler.executors.files.plain import make_directory, write_tree
from springtide.scheduler.executors.library import LIBRARY, PROGRAMS


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
