"""A PyTorch loop as in many repositories: dropout, shuffling, workers, and a state dict after each epoch."""

import argparse
import os

import torch
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--checkpoint", default="checkpoint.pt")
    args = parser.parse_args()

    torch.manual_seed(1)
    data = torch.randn(256, 8)
    train = TensorDataset(data, data.sum(1, keepdim=True))
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(32, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), 0.003)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.5)
    first = 0
    if os.path.isfile(args.checkpoint):
        saved = torch.load(args.checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        schedule.load_state_dict(saved["schedule"])
        torch.set_rng_state(saved["rng"])
        first = saved["epoch"]
        print(f"loaded checkpoint of epoch {first}")
    loader = DataLoader(train, batch_size=32, shuffle=True, num_workers=2)
    for epoch in range(first, args.epochs):
        model.train()
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            optimizer.step()
        schedule.step()
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "schedule": schedule.state_dict(),
            "rng": torch.get_rng_state(),
            "epoch": epoch + 1,
        }
        torch.save(state, args.checkpoint + ".tmp")
        os.replace(args.checkpoint + ".tmp", args.checkpoint)
        print(f"step {epoch + 1}/{args.epochs} loss {loss.item():.4f}", flush=True)
    print("RESULT", [round(value, 7) for value in model[0].weight.detach()[0].tolist()])


if __name__ == "__main__":
    main()
