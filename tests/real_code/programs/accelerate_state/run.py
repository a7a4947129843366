"""Accelerate with `save_state` into numbered folders and `load_state` of the newest one."""

import os
import time

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset


def newest(folder):
    names = [name for name in os.listdir(folder) if name.startswith("step_")] if os.path.isdir(folder) else []
    return max(names, key=lambda name: int(name.split("_")[1]), default=None)


def main():
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(2)
    inputs = torch.randn(64, 4)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=16))
    last = newest("states")
    first = int(last.split("_")[1]) if last else 0
    if last:
        accelerator.load_state(os.path.join("states", last))
        accelerator.print(f"Resumed from {last}")
    for epoch in range(first, 16):
        for x, y in loader:
            optimizer.zero_grad()
            accelerator.backward(torch.nn.functional.mse_loss(model(x), y))
            optimizer.step()
        accelerator.save_state(os.path.join("partial"))
        os.makedirs("states", exist_ok=True)
        os.rename("partial", os.path.join("states", f"step_{epoch + 1}"))
        accelerator.print(f"step {epoch + 1}/16", flush=True)
        time.sleep(0.2)
    weights = accelerator.unwrap_model(model).weight.detach()[0].tolist()
    accelerator.print("RESULT", [round(value, 6) for value in weights])


if __name__ == "__main__":
    main()
