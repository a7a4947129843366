"""A state of 8 GiB on the GPU, saved at a pause; prints a sum of it in the end."""

import pausing
import torch

from springtide.training.adapters.pytorch import Resumable


class State:
    def __init__(self):
        self.values = [torch.full((1 << 28,), float(number), device="cuda") for number in range(8)]

    def state_dict(self):
        return {"values": self.values}

    def load_state_dict(self, state):
        self.values = [value.cuda() for value in state["values"]]


state = State()
parts = Resumable(state=state, every=1000)
for step in range(parts.restore(), 20):
    for value in state.values:
        value += 1
    pausing.batch()
    parts.done(step + 1, of=20)
print("RESULT", sum(value.mean().item() for value in state.values))
