"""Whether a submission's command, variables and files can be run, and what it is called."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from springtide.scheduler import wire, wording
from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.refusal import Refusal, invalid_field


def check_program(submission: wire.Submission, settings: EngineSettings) -> None:
    """Raise `Refusal` for a program that no machine can run, or whose parts are too large."""
    _check_texts(submission, settings)
    _check_files(submission.files, settings)


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


def default_name(submission: wire.Submission) -> str:
    """Return the name of a job that has none: that of its script, else of its command."""
    names = [PurePosixPath(word).name for word in submission.argv if not word.startswith("-")]
    scripts = [name for name in names if name.endswith((".py", ".sh", ".ipynb"))]
    name = "".join(c for c in (scripts or names or ["job"])[0] if wording.is_printable(c))
    return name[: wire.MAX_NAME] or "job"
