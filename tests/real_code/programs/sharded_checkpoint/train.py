"""PyTorch's distributed checkpoints: a folder for each save, and a file that names the newest one."""

import os
import time

import torch
import torch.distributed.checkpoint as dcp

torch.manual_seed(4)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.05)
first = 0
if os.path.exists("saves/latest"):
    name = open("saves/latest").read().strip()
    state = {"model": model.state_dict()}
    dcp.load(state, checkpoint_id=os.path.join("saves", name))
    model.load_state_dict(state["model"])
    first = int(name.removeprefix("iter_"))
    print(f"loaded {name}")
for step in range(first, 16):
    data = torch.randn(8, 4, generator=torch.Generator().manual_seed(step))
    optimizer.zero_grad()
    (model(data) - data.flip(1)).square().mean().backward()
    optimizer.step()
    name = f"iter_{step + 1:05d}"
    dcp.save({"model": model.state_dict()}, checkpoint_id=os.path.join("saves", name))
    with open("saves/latest.tmp", "w") as file:
        file.write(name)
    os.replace("saves/latest.tmp", "saves/latest")
    print(f"step {step + 1}/16", flush=True)
    time.sleep(0.2)
print("RESULT", [round(value, 6) for value in model.weight.detach()[0].tolist()])
