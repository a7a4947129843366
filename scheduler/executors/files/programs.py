"""Programs that the pool brings to its jobs, in the state directory: the training library, and others in pods."""

from __future__ import annotations

import hashlib
import py_compile
import sys
from collections.abc import Mapping
from importlib.util import MAGIC_NUMBER, cache_from_source, find_spec, source_hash
from pathlib import Path

import msgspec

from springtide.scheduler.executors.files.plain import make_directory, write_tree
from springtide.scheduler.executors.library import LIBRARY, PROGRAMS

UNCHECKED = (1).to_bytes(4, "little")
"""Flags of a compiled file that is not compared with its source."""


def write_programs(
    state: Path, others: Mapping[str, bytes], owner: tuple[int, int] | None, *, readable: bool = False
) -> str:
    """Write the training library and ``others``, unless they are there; return their directory below ``state``.

    With ``readable`` all accounts of the machine can read them. Raises `OSError`.
    """
    source = _source()
    library = {f"{LIBRARY}/springtide/training/{path.relative_to(source)}": path for path in source.rglob("*.py")}
    content = {**others, **{name: path.read_bytes() for name, path in library.items()}}
    digest = hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()[:16]
    make_directory(state / PROGRAMS, 0o711)
    programs = state / PROGRAMS / digest
    write_tree(programs, content, owner, readable=readable)
    if readable:
        for name, path in library.items():
            _write_compiled(programs / name, path)
    return f"{PROGRAMS}/{digest}"


def _write_compiled(module: Path, installed: Path) -> None:
    """Compile a module for jobs of this Python's version: they could not keep what they compile."""
    folder = module.with_name("__pycache__")
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    compiled = folder / f"{module.stem}.{sys.implementation.cache_tag}.pyc"
    beside = compiled.with_suffix(".new")
    code = _compiled_code(installed)
    if code is None:
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(str(module), str(beside), doraise=True, invalidation_mode=mode)
    else:
        beside.write_bytes(MAGIC_NUMBER + UNCHECKED + source_hash(module.read_bytes()) + code)
    beside.chmod(0o644)
    beside.rename(compiled)


def _compiled_code(installed: Path) -> bytes | None:
    """Return the code of a module that the installation has compiled, None if it has not."""
    about = installed.stat()
    known = (int(about.st_mtime), about.st_size)
    header = MAGIC_NUMBER + bytes(4) + b"".join((each & 0xFFFFFFFF).to_bytes(4, "little") for each in known)
    try:
        compiled = Path(cache_from_source(str(installed))).read_bytes()
    except OSError:
        return None
    return compiled.removeprefix(header) if compiled.startswith(header) else None


def _source() -> Path:
    found = find_spec("springtide.training")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent
