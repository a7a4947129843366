"""Writes the commit of its own code into what it saves."""

import json
import os
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
commit = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=HERE, text=True).strip()
state = json.load(open("state.json")) if os.path.exists("state.json") else {"step": 0, "commit": commit}
assert state["commit"] == commit
while state["step"] < 40:
    state["step"] += 1
    json.dump(state, open("state.tmp", "w"))
    os.replace("state.tmp", "state.json")
    print(f"step {state['step']}/40", flush=True)
    time.sleep(0.1)
print("RESULT", len(commit), state["step"])
