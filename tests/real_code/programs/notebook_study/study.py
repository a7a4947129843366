"""The cells of a notebook, which the test writes as one: a blank line and `# %%` begin a cell."""

# %% parameters
rate = 0.1
steps = 30

# %%
import json
import time
from pathlib import Path


class State:
    def __init__(self):
        self.step, self.value = 0, 10.0


# %%
from springtide.training import current_job

job = current_job()
found = job.restore()
state = found.state if found else State()
while state.step < steps:
    state.value -= rate * state.value
    state.step += 1
    job.save(state, step=state.step)
    print(f"step {state.step}/{steps}", flush=True)
    time.sleep(0.1)
    if job.should_pause():
        job.exit_for_pause()

# %%
Path(job.output_directory, "result.json").write_text(json.dumps([rate, state.value]))
print("RESULT", rate, round(state.value, 10))
