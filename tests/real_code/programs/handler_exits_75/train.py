"""Finishes its epoch after SIGTERM, saves, and leaves with 75 as for Slurm's requeue."""

import json
import os
import signal
import time

stop = False


def on_term(signum, frame):
    global stop
    stop = True


signal.signal(signal.SIGTERM, on_term)
os.makedirs("ckpt", exist_ok=True)
names = sorted(os.listdir("ckpt"), key=lambda name: int(name.split("-")[1].split(".")[0]))
state = json.load(open(f"ckpt/{names[-1]}")) if names else {"epoch": 0, "best": 0}
for epoch in range(state["epoch"], 10):
    for batch in range(4):
        state["best"] = (state["best"] + (epoch * 4 + batch) ** 2) % 10007
        print(f"step {epoch * 4 + batch + 1}/40", flush=True)
        time.sleep(0.1)
    state["epoch"] = epoch + 1
    if stop or epoch % 3 == 2:
        json.dump(state, open(f"ckpt/epoch-{epoch}.json", "w"))
    if stop:
        raise SystemExit(75)
print("RESULT", state["best"])
