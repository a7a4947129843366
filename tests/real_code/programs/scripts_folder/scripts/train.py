"""Puts the folder above on the path, as many repositories do."""

import os
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)

from common.words import VOCABULARY  # noqa: E402

CHECKPOINT = os.path.join(ROOT, "checkpoints", "last.txt")
os.makedirs(os.path.dirname(CHECKPOINT), exist_ok=True)
done = open(CHECKPOINT).read().split() if os.path.exists(CHECKPOINT) else []
for step in range(len(done), 40):
    done.append(VOCABULARY[step * 7 % len(VOCABULARY)])
    with open(CHECKPOINT + ".new", "w") as file:
        file.write(" ".join(done))
    os.replace(CHECKPOINT + ".new", CHECKPOINT)
    print(f"step {step + 1}/40", flush=True)
    time.sleep(0.1)
print("RESULT", len(done), done[-1], VOCABULARY)
