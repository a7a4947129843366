"""Logs into a folder of its own, named by variables, and continues the run that it finds there."""

import json
import os
import time
from pathlib import Path

run = Path(os.environ.get("TRACKER_DIR", "tracker")) / f"offline-run-{os.environ['RUN_NAME']}"
run.mkdir(parents=True, exist_ok=True)
history = run / "history.jsonl"
lines = history.read_text().splitlines() if history.exists() else []
value = json.loads(lines[-1])["value"] if lines else 1.0
with history.open("a") as file:
    for step in range(len(lines), 40):
        value = value * 0.9 + step
        file.write(json.dumps({"step": step, "value": value}) + "\n")
        file.flush()
        print(f"step {step + 1}/40", flush=True)
        time.sleep(0.1)
print("RESULT", run.name, value)
