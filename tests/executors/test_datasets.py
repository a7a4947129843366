"""Real jobs on one machine read the datasets that they were submitted with."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from benches.local_bench import LocalBench, account_bench

from springtide.scheduler.datasets import Dataset
from springtide.scheduler.executors.base import ExitKind

READS = """
import json, os, pathlib
place = pathlib.Path(json.loads(os.environ["SPRINGTIDE_DATASETS"])["digits"])
print((place / "train.csv").read_text(), end="")
for act in (lambda: (place / "new").write_text("x"), lambda: (place / "train.csv").unlink()):
    try:
        act()
    except PermissionError:
        print("denied")
    else:
        print("allowed")
"""


@pytest.fixture
def digits() -> Iterator[Path]:
    """A directory that every account may read, and only its owner may write to."""
    place = Path(tempfile.mkdtemp(prefix="springtide-data-"))
    (place / "train.csv").write_text("1,2,3\n")
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


@pytest.fixture
async def bench() -> AsyncIterator[LocalBench]:
    async with account_bench() as bench:
        yield bench


@pytest.mark.root
async def test_a_job_reads_its_dataset_and_its_account_cannot_change_it(bench: LocalBench, digits: Path) -> None:
    spec = bench.code(READS, user="nobody", datasets=(Dataset("digits", path=str(digits)),))
    ended = await bench.run(spec)
    assert ended.exit is not None
    log = await bench.log("job")
    assert (ended.exit.code, log) == (0, "1,2,3\ndenied\ndenied\n"), ended.exit.detail
    assert [path.name for path in digits.iterdir()] == ["train.csv"]


@pytest.mark.root
@pytest.mark.parametrize(
    ("dataset", "kind", "says"),
    [
        (
            Dataset("digits", path="/no/such/place"),
            ExitKind.BLOCKED,
            "“/no/such/place” is no directory of this machine",
        ),
        (Dataset("digits"), ExitKind.REFUSED, "The dataset “digits” is no longer there for project “vision”"),
    ],
)
async def test_a_dataset_that_is_not_there_is_told_before_the_job_runs(
    bench: LocalBench, dataset: Dataset, kind: ExitKind, says: str
) -> None:
    ended = await bench.run(bench.code("print('never')", project="vision", datasets=(dataset,)))
    assert ended.exit is not None
    assert ended.exit.kind is kind
    assert says in ended.exit.detail
