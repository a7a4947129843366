"""The environment of a job: captured Python, environment of the run, and missing parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta

from springtide.scheduler.wire.shapes import MAX_IMAGE, MAX_NAME, Answer, Request, Word
from springtide.scheduler.wire.trees import ProjectTree
from springtide.scheduler.wording import LONG_GIVEN, given, listed, plural

ACTIVATION: Final = (
    *("PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "VIRTUAL_ENV"),
    *("CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_EXE", "CONDA_PYTHON_EXE", "CONDA_SHLVL", "CONDA_ROOT"),
    *("MAMBA_EXE", "MAMBA_ROOT_PREFIX", "PYENV_ROOT", "PYENV_VERSION", "UV_PROJECT_ENVIRONMENT"),
)
"""The variables that say which environment is activated in a shell."""
MAX_VARIABLE: Final = 32_768
"""Maximum length of one of these, in characters."""
SEARCH_PATH: Final = "PYTHONPATH"
"""Variable with the places in which a Python looks for modules."""
IMAGE_VARIABLE: Final = "SPRINGTIDE_IMAGE"
"""Variable of a notebook on a cluster that names the image it runs in."""


class ImageContents(Answer, frozen=True, kw_only=True):
    """An administrator's declaration of an image: its Python, and the modules that can be imported there.

    ``packages`` are versions by the name of the distribution. ``modules`` are top-level names.
    """

    python: str
    modules: list[str]
    packages: dict[str, str] = {}


class DeclaredContents(Answer, frozen=True, kw_only=True):
    """The declaration of one image; None if there is none."""

    contents: ImageContents | None = None


def missing_modules(
    environment: PythonEnvironment | None,
    image: str | None,
    requirements: Sequence[str],
    contents: ImageContents | None,
) -> list[str]:
    """Return the modules imported by a job's code but missing where it runs, as far as that is known.

    ``image`` is that of the job, None on one machine, ``contents`` its declared contents. Nothing is known of a
    job in an image without a declaration, or with packages to install.
    """
    if environment is None or requirements:
        return []
    if image is None:
        return environment.missing
    if contents is None:
        return []
    there = set(contents.modules)
    return [module for module in environment.imports if module not in there][:MAX_PACKAGES]


MAX_PACKAGES = 300
"""Maximum number of packages that a job's record names."""


def missing_text(missing: Sequence[str], place: str) -> str:
    """Return which modules are missing in an image or a Python, as a sentence; empty if none is."""
    if not missing:
        return ""
    return (
        f"The code imports {listed(missing)}, which {plural(len(missing), 'is', 'are')} not installed in {place}."
    )


def missing_program(
    environment: PythonEnvironment | None, word: str, image: str | None, requirements: Sequence[str]
) -> tuple[str, str] | None:
    """Return the message and the hint for a command whose program is not there, None if it is or is not known.

    ``word`` is the first one of the command. In another image, or with packages to install, other programs are
    there.
    """
    if environment is None or "PATH" not in environment.variables or environment.program:
        return None
    if requirements or not (image is None or in_image_of_submission(environment, image)):
        return None
    named = given(word, LONG_GIVEN)
    if "/" in word:
        return f"There is no program {named} that can be run.", "Check its path, and that the file is executable."
    return (
        f"The program {named} is not on the PATH of the submission.",
        "Activate the environment that has it, install it there, or give its whole path.",
    )


def in_image_of_submission(environment: PythonEnvironment | JobEnvironment, image: str | None) -> bool:
    """Return whether ``image``, that of a job, is also the one of the notebook that the job was submitted from."""
    return bool(image) and environment.image == image


class PythonEnvironment(Request, frozen=True, kw_only=True):
    """The environment that was found where a job was submitted: its program, its Python, and their packages.

    ``program`` is the path of the command's program, from the root or from ``{project_tree}``, and ``variables``
    are those of `ACTIVATION`; both count on one machine, and on a cluster in ``image``, that of the notebook, if
    the job has the user's home. A program is missing if there is a ``PATH`` and none was found on it.

    ``python`` is the version and ``path`` the path of the interpreter, ``name`` the name of its environment; of a
    command that chooses its Python by itself only ``path`` is known, of the first one on ``PATH``.
    ``packages`` are versions by the name of the distribution, ``imports`` the modules that the code cannot do
    without, beside its own and those of Python, by their top-level names; ``missing`` are those that this Python
    does not have.
    """

    python: Annotated[str, Meta(max_length=MAX_NAME)] = ""
    path: Annotated[str, Meta(max_length=4096)] = ""
    name: Word = ""
    image: Annotated[str, Meta(max_length=MAX_IMAGE)] = ""
    program: Annotated[str, Meta(max_length=4096)] = ""
    variables: Annotated[
        dict[Word, Annotated[str, Meta(max_length=MAX_VARIABLE)]], Meta(max_length=len(ACTIVATION))
    ] = {}
    packages: Annotated[dict[Word, Word], Meta(max_length=MAX_PACKAGES)] = {}
    missing: Annotated[list[Word], Meta(max_length=MAX_PACKAGES)] = []
    imports: Annotated[list[Word], Meta(max_length=MAX_PACKAGES)] = []


class JobEnvironment(Answer, frozen=True, kw_only=True):
    """The environment of a job at its submission. The container image is that of the job.

    ``program`` is the path of the command's program, ``python`` the version, ``path`` the interpreter and ``name``
    its environment: on one machine those that run the job, on a cluster those of the notebook, whose image is
    ``image``. They are empty if they are not known; without a version ``path`` is the Python that the command
    finds first. ``packages`` are versions of what the code imports, by the name of the distribution; ``missing``
    are modules that the code imports and the Python that runs the job does not have. ``files`` are the paths of
    the first files that were sent, ``file_count`` the number and ``file_bytes`` the size of all. ``variables`` are
    names alone: values may be secrets.
    """

    program: str = ""
    python: str = ""
    path: str = ""
    name: str = ""
    image: str = ""
    packages: dict[str, str] = {}
    missing: list[str] = []
    missing_text: str = ""
    """A sentence that says which those are, and where they are missing; empty if none is known to be missing."""
    files: list[str] = []
    file_count: int = 0
    file_bytes: int = 0
    variables: list[str] = []
    unsent: list[str] = []
    """Well-known variables that are set at the place of submission and not sent; known before it alone."""
    requirements: tuple[str, ...] = ()
    """Packages that are installed for the job."""
    tree: ProjectTree | None = None
    """The project of which the job has a copy; None if it runs without one."""
    in_place: str = ""
    """The folder that the job runs in itself, by the option ``in_place``; empty without that."""
