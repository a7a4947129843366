"""The job of the kill tests: a chain of digests, one link a step, saved after each.

It holds a lock on itself and on each of its GPUs while it runs: what runs twice, or gets a GPU that another one
has, finds the lock taken and says so in ``violations``.
"""

import fcntl
import hashlib
import os
import sys
import time
from pathlib import Path

watched, steps, pause = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
name = os.environ["SPRINGTIDE_JOB_NAME"]
held = []
for what in (name, *os.environ["CUDA_VISIBLE_DEVICES"].split(",")):
    lock = (watched / f"{what}.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with (watched / "violations").open("a") as violations:
            violations.write(f"{name} at attempt {os.environ['SPRINGTIDE_ATTEMPT']} found {what} in use\n")
    held.append(lock)
saved = Path(os.environ["SPRINGTIDE_CHECKPOINT_DIR"]) / "chain"
done, link = saved.read_text().split() if saved.exists() else ("0", name)
for step in range(int(done) + 1, steps + 1):
    if Path(os.environ["SPRINGTIDE_PAUSE_FILE"]).exists():
        sys.exit(75)
    time.sleep(pause)
    link = hashlib.sha256(link.encode()).hexdigest()
    beside = saved.with_suffix(".new")
    beside.write_text(f"{step} {link}")
    beside.rename(saved)
with (watched / f"{name}.results").open("a") as results:
    results.write(f"{link}\n")
