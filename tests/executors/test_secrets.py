"""Real jobs on one machine have the variables of the secrets that they name, and nothing keeps the values."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from benches.local_bench import LocalBench, account_bench

from springtide.scheduler.declared import NamedSecret
from springtide.scheduler.executors.base import ExitKind
from springtide.scheduler.executors.supervisor.secret_files import read_secret

VALUE = "s3cret-value-0815"
SHOWS = "import hashlib, os; print(hashlib.sha256(os.environ['WANDB_API_KEY'].encode()).hexdigest()[:8])"


@pytest.fixture
def file() -> Iterator[Path]:
    """A file that its owner alone may read, as an admin makes it."""
    handle, name = tempfile.mkstemp(prefix="springtide-secret-")
    os.write(handle, f"# for runs\n\nWANDB_API_KEY={VALUE}\nEQUALS=a=b c\n".encode())
    os.close(handle)
    yield Path(name)
    Path(name).unlink()


@pytest.fixture
async def bench() -> AsyncIterator[LocalBench]:
    async with account_bench() as bench:
        yield bench


def kept(place: Path) -> list[str]:
    """The files below a directory that contain the value."""
    files = (path for path in place.rglob("*") if path.is_file())
    return [str(path) for path in files if VALUE.encode() in path.read_bytes()]


@pytest.mark.root
async def test_a_job_has_the_variables_of_its_secret_and_no_file_keeps_them(bench: LocalBench, file: Path) -> None:
    ended = await bench.run(bench.code(SHOWS, user="nobody", secrets=(NamedSecret("wandb", file=str(file)),)))
    assert ended.exit is not None
    assert (ended.exit.code, len((await bench.log("job")).strip())) == (0, 8), ended.exit.detail
    assert kept(bench.state) == []


@pytest.mark.root
async def test_the_account_of_a_job_cannot_open_the_file_and_its_own_variable_counts(
    bench: LocalBench, file: Path
) -> None:
    code = f"import os; print(os.environ['WANDB_API_KEY'], os.access({str(file)!r}, os.R_OK))"
    secrets = (NamedSecret("wandb", file=str(file)),)
    ended = await bench.run(bench.code(code, user="nobody", env={"WANDB_API_KEY": "mine"}, secrets=secrets))
    assert ended.exit is not None
    assert (ended.exit.code, await bench.log("job")) == (0, "mine False\n"), ended.exit.detail


@pytest.mark.root
@pytest.mark.parametrize(
    ("content", "kind", "says"),
    [
        (None, ExitKind.BLOCKED, "The secret “wandb” cannot be read: No such file or directory"),
        (f"{VALUE}\n", ExitKind.BLOCKED, "The secret “wandb” cannot be read: its line 1 is not NAME=value"),
        (
            f"LD_PRELOAD={VALUE}\n",
            ExitKind.BLOCKED,
            "its line 1 sets a variable that is the pool's or the loader's",
        ),
        ("", ExitKind.REFUSED, "The secret “wandb” is no longer there for project “vision”"),
    ],
)
async def test_a_secret_that_cannot_be_read_is_said_before_the_job_runs_without_its_value(
    bench: LocalBench, tmp_path: Path, content: str | None, kind: ExitKind, says: str
) -> None:
    place = tmp_path / "secret"
    if content:
        place.write_text(content)
    secret = NamedSecret("wandb") if content == "" else NamedSecret("wandb", file=str(place))
    ended = await bench.run(bench.code("print('never')", project="vision", secrets=(secret,)))
    assert ended.exit is not None
    assert ended.exit.kind is kind
    assert says in ended.exit.detail
    assert VALUE not in ended.exit.detail


def test_values_are_read_as_they_stand(file: Path, tmp_path: Path) -> None:
    assert read_secret(str(file)) == {"WANDB_API_KEY": VALUE, "EQUALS": "a=b c"}
    other = tmp_path / "other"
    other.write_bytes(b'A="quoted" # no comment\r\n  # one\nB=\n')
    assert read_secret(str(other)) == {"A": '"quoted" # no comment', "B": ""}
    other.write_bytes(b"A=\xff\n")
    with pytest.raises(ValueError, match="it is not UTF-8"):
        read_secret(str(other))
