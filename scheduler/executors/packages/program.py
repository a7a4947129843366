"""Installs the packages that a job requires into an environment that later jobs share, and runs the job in it.

The Python that the job asked for runs this file, as the job's account: ``build`` makes the environment unless it
is there, ``run`` replaces this process by the job's command in it. Standard library of Python 3.9 only. An
environment is a directory that is named by a digest of its requirements and base; the file ``complete`` in it is
written last.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import site
import subprocess
import sys
import sysconfig
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Iterator, NoReturn, Sequence  # noqa: UP035 - of Python 3.9

PIP_VARIABLES = {"PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
"""Variables with which pip installs into an environment, without questions."""
COMPLETE = "complete"
"""Name of the file with the size of a complete environment, in bytes; its time is that of the latest use."""


def base_directories() -> list[str]:
    """Return the directories that this Python finds its packages in."""
    found = [*site.getsitepackages(), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    return [path for path in dict.fromkeys(found) if Path(path).is_dir()]


def digest(requirements: Sequence[str]) -> str:
    """Return the name of the environment: of the requirements, this Python, and the packages that it has."""
    directories = base_directories()
    installed = [sorted(info.name for info in Path(path).glob("*-info")) for path in directories]
    parts = [sorted(requirements), sys.version, sys.prefix, sys.base_prefix, directories, installed]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


@contextmanager
def locked(path: Path, how: int) -> Iterator[int]:
    """Hold a lock on a file. Raises `BlockingIOError` if ``how`` does not wait and another process holds it."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(file, how)
        yield file
    finally:
        os.close(file)


def build(place: Path, requirements: Sequence[str], most: int) -> None:
    """Build the environment unless it is there, then remove old ones. Raises `SystemExit` on failure."""
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    root = place / digest(requirements)
    with locked(root.with_suffix(".lock"), fcntl.LOCK_EX):
        if not (root / COMPLETE).exists():
            shutil.rmtree(root, ignore_errors=True)
            if not install(root, requirements):
                shutil.rmtree(root, ignore_errors=True)
                raise SystemExit(1)
            (root / COMPLETE).write_text(str(size_of(root)))
    remove_old(place, root, most)


def install(root: Path, requirements: Sequence[str]) -> bool:
    """Make the environment on top of this Python, and install the requirements; return whether pip could."""
    sys.stdout.write(f"Installing {len(requirements)} required: {', '.join(requirements)}\n")
    sys.stdout.flush()
    pip = make(root)
    environment = {**os.environ, **PIP_VARIABLES}
    return subprocess.run([*pip, "install", *requirements], check=False, cwd=root, env=environment).returncode == 0


def make(root: Path) -> list[str]:
    """Make an environment on top of this Python and its packages; return the command of its pip."""
    subprocess.run([sys.executable, "-I", "-m", "venv", "--without-pip", str(root)], check=True)
    python = root / "bin" / "python"
    within = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    lines = (f"import site; site.addsitedir({path!r})\n" for path in base_directories())
    (root / within / "springtide-base.pth").write_text("".join(lines))
    pip = [str(python), "-I", "-m", "pip"]
    if subprocess.run([*pip, "--version"], check=False, capture_output=True, cwd=root).returncode:
        subprocess.run([str(python), "-I", "-m", "ensurepip"], check=False, cwd=root)
    return pip


def size_of(root: Path) -> int:
    """Return the size of the files below a directory, in bytes."""
    return sum(path.lstat().st_size for path in root.rglob("*"))


def remove_old(place: Path, kept: Path, most: int) -> None:
    """Remove unused environments, the least recently used first, until all take at most ``most`` bytes."""
    found = [(path, *used(path)) for path in place.iterdir() if path.is_dir() and path != kept]
    left = sum(size for _, _, size in found) + used(kept)[1]
    for path, _, size in sorted(found, key=lambda environment: environment[1]):
        if left <= most:
            return
        with suppress(BlockingIOError), locked(path.with_suffix(".lock"), fcntl.LOCK_EX | fcntl.LOCK_NB):
            shutil.rmtree(path, ignore_errors=True)
            left -= size


def used(root: Path) -> tuple[float, int]:
    """Return when an environment was used last, and its size in bytes; zeros for one that is not complete."""
    try:
        return (root / COMPLETE).stat().st_mtime, int((root / COMPLETE).read_text())
    except (OSError, ValueError):
        return 0.0, 0


def run(place: Path, requirements: Sequence[str], most: int, argv: Sequence[str]) -> NoReturn:
    """Become the command in the environment, which stays as long as a process of the command is left."""
    root = place / digest(requirements)
    while True:
        build(place, requirements, most)
        with locked(root.with_suffix(".lock"), fcntl.LOCK_SH) as lock:
            if not (root / COMPLETE).exists():
                continue
            os.utime(root / COMPLETE)
            os.set_inheritable(lock, True)
            path = f"{root / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
            environment = {**os.environ, "PATH": path, "VIRTUAL_ENV": str(root)}
            words = within(root, argv)
            try:
                os.execvpe(words[0], words, environment)  # noqa: S606 - there is no shell on purpose
            except OSError as error:
                raise SystemExit(
                    f"The program “{repr(words[0])[1:-1]}” cannot be run: {error.strerror}."
                ) from None


def within(root: Path, argv: Sequence[str]) -> list[str]:
    """Return the command with the environment's Python in place of the Python below, also for its scripts."""
    python = str(root / "bin" / "python")
    if argv[0] == sys.executable:
        return [python, *argv[1:]]
    name = Path(argv[0]).name
    if Path(argv[0]).parent != Path(sys.executable).parent:
        return list(argv)
    if (root / "bin" / name).exists():
        return [str(root / "bin" / name), *argv[1:]]
    with suppress(OSError), Path(argv[0]).open("rb") as script:
        first = script.readline(1000).strip()
        if first.startswith(f"#!{Path(sys.executable).parent}/python".encode()):
            return [python, *argv]
    return list(argv)


def main(arguments: Sequence[str]) -> None:
    """Build or run, as the arguments say: what to do, the parameters as JSON, the words of the command."""
    what, text, *argv = arguments
    parameters: dict[str, Any] = json.loads(text)
    place, requirements, most = (
        Path(parameters["place"]).expanduser(),
        parameters["requirements"],
        parameters["most"],
    )
    try:
        if what == "build":
            build(place, requirements, most)
        else:
            run(place, requirements, most, argv)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"ERROR: The environment cannot be made in {place}: {error}") from None


if __name__ == "__main__":
    main(sys.argv[1:])
