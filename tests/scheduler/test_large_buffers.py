"""Memory of large buffers is returned when they are freed."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import pathlib
from springtide.scheduler import process_tuning

def resident_mib():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) / 256

assert process_tuning.return_when_freed()
before = resident_mib()
for _ in range(3):
    buffers, between = [], []
    for number in range(16):
        buffers.append(b"x" * ((8 << 20) - 5000 * number))
        between.append(bytearray(60_000))
    most = resident_mib() - before
    buffers.clear()
    print(most, resident_mib() - before)
"""


def test_large_buffers_leave_nothing_behind() -> None:
    told = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    for line in told.splitlines():
        most, left = map(float, line.split())
        assert most > 100
        assert left < 10
