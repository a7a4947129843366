"""Environments that people make in their home directories: each a Python with packages, and a Jupyter kernel.

An environment with the Python of this process is made on top of its packages, as those that jobs require are: it
has Springtide and what notebooks need without a download, and follows an upgrade of the hub. One with another
version of Python has packages of its own, and Springtide by a link to this installation.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import shutil
import site
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from springtide.scheduler.executors.packages import program
from springtide.scheduler.wording import LONG_GIVEN, given, listed

ABOUT: Final = "springtide.json"
"""Name of the file that describes a complete environment; it is written last."""
NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")
VERSION: Final = re.compile(r"3\.[0-9]{1,2}")
OWN: Final = f"{sys.version_info[0]}.{sys.version_info[1]}"
OLDEST: Final = (3, 11)
"""Oldest Python of notebooks that use the pool; older ones have the training library alone."""
KEPT_LINES: Final = 50
FOREIGN: Final = ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_REQUIRE_VIRTUALENV", "VIRTUAL_ENV")
"""Variables that would make pip install elsewhere."""


class UserEnvironmentError(Exception):
    """An environment cannot be made, changed or removed; the message has the reason and a hint."""


@dataclass(frozen=True, slots=True)
class UserEnvironment:
    """An environment: the version of its Python, and the packages that were asked for, in the order of requests.

    ``kernel`` is the name of its kernel. ``problem`` says why it cannot be used, empty if it can.
    """

    name: str
    path: Path
    python: str = ""
    packages: tuple[str, ...] = ()
    problem: str = ""

    @property
    def kernel(self) -> str:
        """The name of its kernel."""
        return f"springtide-{self.name}"

    @property
    def interpreter(self) -> Path:
        """Its Python."""
        return self.path / "bin" / "python"


@dataclass(frozen=True, slots=True)
class UserEnvironments:
    """The environments in the directory ``root``, with their kernels in ``kernels``.

    ``say`` is called with each line that the programs print which make them.
    """

    root: Path
    kernels: Path
    say: Callable[[str], None]

    def all(self) -> list[UserEnvironment]:
        """Return all environments, by name."""
        names = sorted(path.name for path in self.root.glob("*/") if NAME.fullmatch(path.name))
        return [self._found(name) for name in names]

    def create(self, name: str, packages: Sequence[str] = (), python: str = OWN) -> UserEnvironment:
        """Make an environment with these packages, and its kernel. Raises `UserEnvironmentError`.

        ``python`` is the version of its Python, such as 3.12. What cannot be completed is removed.
        """
        check_request(name, packages)
        if not VERSION.fullmatch(python):
            raise UserEnvironmentError(f"{given(python)} is no version of Python; expected is one such as {OWN}.")
        self._make_root()
        with program.locked(self.root / f".{name}.lock", fcntl.LOCK_EX):
            before = self._found(name)
            if before.path.exists() and not before.problem:
                raise UserEnvironmentError(
                    f"There is an environment {name} already. Add packages with `springtide env install {name} "
                    f"PACKAGE`, or remove it with `springtide env remove {name}`."
                )
            shutil.rmtree(before.path, ignore_errors=True)
            try:
                pip = self._linked(before) if python == OWN else self._isolated(before, python)
                self._install(pip, before, packages)
                _write_programs(before, with_command=tuple(map(int, python.split("."))) >= OLDEST)
                basis = program.base_directories() if python == OWN else [str(_installation())]
                self._describe(before, packages, basis)
            except BaseException:
                shutil.rmtree(before.path, ignore_errors=True)
                raise
            return self._found(name)

    def install(self, name: str, packages: Sequence[str]) -> UserEnvironment:
        """Install packages into an environment. Raises `UserEnvironmentError`."""
        check_request(name, packages)
        with self._locked(name) as found:
            if found.problem:
                raise UserEnvironmentError(f"{found.problem} Make it anew with `springtide env create {name}`.")
            self._install([str(found.interpreter), "-I", "-m", "pip"], found, packages)
            about = json.loads((found.path / ABOUT).read_bytes())
            both = dict.fromkeys((*found.packages, *packages))
            _write(found.path / ABOUT, {**about, "packages": list(both)})
            return self._found(name)

    def remove(self, name: str) -> None:
        """Remove an environment and its kernel. Raises `UserEnvironmentError`."""
        check_request(name, ())
        with self._locked(name) as found:
            shutil.rmtree(self.kernels / found.kernel, ignore_errors=True)
            try:
                shutil.rmtree(found.path)
            except OSError as error:
                raise UserEnvironmentError(f"{error.filename} cannot be removed: {error.strerror}.") from error
        (self.root / f".{name}.lock").unlink(missing_ok=True)

    # ---------- parts

    def _found(self, name: str) -> UserEnvironment:
        path = self.root / name
        try:
            about: dict[str, Any] = json.loads((path / ABOUT).read_bytes())
            found = UserEnvironment(name, path, str(about["python"]), tuple(map(str, about["packages"])))
            basis = [found.interpreter, *map(Path, about["basis"])]
        except (OSError, ValueError, KeyError, TypeError):
            return UserEnvironment(name, path, problem=f"The environment {name} is not complete.")
        gone = next((part for part in basis if not part.exists()), None)
        if gone is None:
            return found
        return replace(found, problem=f"The environment {name} was made on {gone.resolve()}, which is gone.")

    @contextmanager
    def _locked(self, name: str) -> Iterator[UserEnvironment]:
        """Give an environment, which no other process changes meanwhile. Raises `UserEnvironmentError`."""
        if not (self.root / name).is_dir():
            known = listed([each.name for each in self.all()])
            hint = f"You have {known}." if known else "Make one with `springtide env create NAME`."
            raise UserEnvironmentError(f"There is no environment {name}. {hint}")
        with program.locked(self.root / f".{name}.lock", fcntl.LOCK_EX):
            yield self._found(name)

    def _make_root(self) -> None:
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise UserEnvironmentError(f"{error.filename} cannot be made: {error.strerror}.") from error

    def _linked(self, made: UserEnvironment) -> list[str]:
        """Make an environment on top of this Python; return the command of its pip."""
        self.say(f"Making {made.path} with Python {OWN} and the packages of {sys.prefix}")
        try:
            return program.make(made.path)
        except (OSError, subprocess.CalledProcessError) as error:
            raise UserEnvironmentError(f"The environment {made.name} cannot be made: {error}") from error

    def _isolated(self, made: UserEnvironment, python: str) -> list[str]:
        """Make an environment with another Python and what its kernel needs; return the command of its pip."""
        uv = shutil.which("uv")
        self.say(f"Making {made.path} with Python {python}")
        if uv is not None:
            self._run([uv, "venv", "--quiet", "--seed", "--python", python, str(made.path)], made, "made")
        else:
            self._run([_other_python(python), "-I", "-m", "venv", str(made.path)], made, "made")
        pip = [str(made.interpreter), "-I", "-m", "pip"]
        minor = tuple(map(int, python.split(".")))
        needed = ["ipykernel", *(_needed_by_notebooks() if minor >= OLDEST else ())]
        self._install(pip, made, needed)
        within = made.path / f"lib/python{python}/site-packages"
        (within / "springtide").symlink_to(_installation(), target_is_directory=True)
        if minor < OLDEST:
            self.say(
                f"With Python {python} notebooks have springtide.training alone; submitting jobs takes Python "
                f"{'.'.join(map(str, OLDEST))} or newer."
            )
        return pip

    def _install(self, pip: Sequence[str], into: UserEnvironment, packages: Sequence[str]) -> None:
        if packages:
            self.say(f"Installing {', '.join(packages)}")
            command = [*pip, "install", "--progress-bar", "off", *packages]
            self._run(
                command, into, f"{listed(list(packages))} cannot be installed into the environment {into.name}"
            )

    def _run(self, command: Sequence[str], made: UserEnvironment, failed: str) -> None:
        """Run a program and pass its lines on. Raises `UserEnvironmentError` with the last ones if it fails."""
        environment = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        lines: deque[str] = deque(maxlen=KEPT_LINES)
        with subprocess.Popen(
            command,
            env=environment | program.PIP_VARIABLES,
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as running:
            assert running.stdout is not None
            for line in running.stdout:
                if line.strip():
                    lines.append(line.strip())
                    self.say(line.rstrip())
        if running.returncode:
            problem = f"The environment {made.name} cannot be made" if failed == "made" else failed
            raise UserEnvironmentError(f"{problem}: {_reason(lines)}")

    def _describe(self, made: UserEnvironment, packages: Sequence[str], basis: Sequence[str]) -> None:
        """Write the kernel, and the file that says that the environment is complete."""
        python = subprocess.run(
            [made.interpreter, "-I", "-c", "import platform; print(platform.python_version())"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        kernel = self.kernels / made.kernel
        kernel.mkdir(parents=True, exist_ok=True)
        _write(kernel / "kernel.json", kernel_spec(made, python))
        _write(made.path / ABOUT, {"python": python, "packages": list(packages), "basis": list(basis)})


def kernel_spec(made: UserEnvironment, python: str) -> dict[str, Any]:
    """Return the specification of an environment's kernel; its programs are the first of ``PATH``."""
    return {
        "argv": [str(made.interpreter), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": f"{made.name} (Python {python})",
        "language": "python",
        "env": {"PATH": f"{made.path / 'bin'}:${{PATH}}", "VIRTUAL_ENV": str(made.path), "PIP_USER": "0"},
        "metadata": {"debugger": True},
    }


def user_environments(environ: Mapping[str, str], say: Callable[[str], None]) -> UserEnvironments:
    """Return the environments of the person whose process has these variables."""
    home = Path(environ.get("HOME") or Path.home())
    data = Path(environ.get("XDG_DATA_HOME") or home / ".local/share")
    jupyter = Path(environ.get("JUPYTER_DATA_DIR") or data / "jupyter")
    return UserEnvironments(data / "springtide/environments", jupyter / "kernels", say)


def installs_here() -> bool:
    """Return whether pip of this Python can install packages, into its directories or into the person's home."""
    return bool(site.ENABLE_USER_SITE) or all(os.access(path, os.W_OK) for path in program.base_directories()[:1])


def how_to_install(*packages: str, can_install: bool | None = None) -> str:
    """Return how packages are installed for notebooks with this Python, as the end of a sentence.

    ``can_install`` says whether its pip can; None: as `installs_here` finds.
    """
    words = shlex.join(packages)
    if installs_here() if can_install is None else can_install:
        return f"%pip install {words}"
    return (
        "make an environment of your own (the packages of this kernel belong to the hub), in a terminal: "
        f"springtide env create NAME {words}"
    )


def check_request(name: str, packages: Sequence[str]) -> None:
    """Raise `UserEnvironmentError` for a bad name of an environment or package."""
    if not NAME.fullmatch(name):
        raise UserEnvironmentError(
            f"{given(name, LONG_GIVEN)} is no name of an environment: expected up to 40 small letters, "
            "digits, dots and dashes, such as bert-2."
        )
    option = next((package for package in packages if package.startswith("-") or not package.strip()), None)
    if option is not None:
        raise UserEnvironmentError(
            f"{given(option, LONG_GIVEN)} is no package; expected packages such as torch or 'numpy<2'."
        )


def _other_python(version: str) -> str:
    """Return the path of a Python of this version. Raises `UserEnvironmentError` if there is none that runs."""
    found = shutil.which(f"python{version}")
    if found is None or subprocess.run([found, "-I", "-c", ""], check=False, capture_output=True).returncode:
        raise UserEnvironmentError(
            f"There is no Python {version} here. Leave out --python for Python {OWN}, or ask an administrator to "
            f"install python{version} or uv, which fetches any version."
        )
    return found


def _reason(lines: Sequence[str]) -> str:
    """Return the line in which a program says why it failed."""
    errors = [line for line in lines if line.lower().startswith("error")]
    return (errors or list(lines) or ["its program gave no reason."])[-1]


def _needed_by_notebooks() -> list[str]:
    """Return the packages that Springtide needs in a notebook."""
    from importlib import metadata  # noqa: PLC0415 - slow, and every kernel loads this module

    return [
        requirement.partition(";")[0].strip()
        for requirement in metadata.requires("springtide") or ()
        if ";" not in requirement or re.search(r"extra\s*==\s*['\"]widgets['\"]", requirement)
    ]


def _write_programs(made: UserEnvironment, *, with_command: bool) -> None:
    """Write ``pip`` and ``springtide`` where an environment has none: else the hub's programs are found first."""
    for name in ("pip", "pip3", *(["springtide"] if with_command else [])):
        path = made.path / "bin" / name
        if not path.exists():
            module = "springtide" if name == "springtide" else "pip"
            path.write_text(
                f'#!/bin/sh\nexec {shlex.quote(str(made.interpreter))} -m {module} "$@"\n', encoding="utf-8"
            )
            path.chmod(0o755)


def _installation() -> Path:
    """Return the directory of the package ``springtide`` that this module is of."""
    return Path(__file__).parent.parent


def _write(path: Path, content: Mapping[str, Any]) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")
    temporary.replace(path)
