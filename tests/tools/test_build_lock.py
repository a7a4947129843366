"""What several processes need is built by one of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from build_lock import alone

SUPPORT = Path(__file__).parents[1] / "support"
BUILDER = """
import sys
from pathlib import Path
from build_lock import alone
with alone(Path(sys.argv[1]), "the images"):
    print("Built", flush=True)
"""


def test_a_second_build_says_what_it_waits_for_and_goes_on_after_the_first(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    command = [sys.executable, "-c", BUILDER, str(path)]
    with alone(path, "the images"):
        second = subprocess.Popen(command, env={"PYTHONPATH": str(SUPPORT)}, stdout=subprocess.PIPE, text=True)
        assert second.stdout is not None
        said = second.stdout.readline()
    rest, _ = second.communicate()
    assert (said, rest) == ("Waiting for another build of the images\n", "Built\n")
