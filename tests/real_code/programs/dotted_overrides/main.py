"""Settings from files of the project, overridden by words such as model.width=8."""

import configparser
import json
import sys
import time
from pathlib import Path


def settings(words):
    parsed = configparser.ConfigParser()
    parsed.read("config/base.ini")
    for word in words:
        key, _, value = word.partition("=")
        if key == "config":
            parsed.read(Path("config", value + ".ini"))
        else:
            section, _, name = key.partition(".")
            parsed[section][name] = value
    return parsed


chosen = settings(sys.argv[1:])
width, steps = chosen.getint("model", "width"), chosen.getint("train", "steps")
rate = chosen.getfloat("train", "rate")
run = Path("outputs", f"width-{width}")
run.mkdir(parents=True, exist_ok=True)
saved = run / "state.json"
state = json.loads(saved.read_text()) if saved.exists() else {"step": 0, "w": [1.0] * width}
for step in range(state["step"], steps):
    state = {"step": step + 1, "w": [w - rate * w / (i + 2) for i, w in enumerate(state["w"])]}
    saved.with_suffix(".tmp").write_text(json.dumps(state))
    saved.with_suffix(".tmp").replace(saved)
    print(f"step {step + 1}/{steps}", flush=True)
    time.sleep(0.1)
print("RESULT", width, rate, sum(state["w"]))
