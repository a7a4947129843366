"""Plain PyTorch: dropout, shuffle, workers that augment the data, bfloat16, momentum, a schedule."""

import random

import numpy as np
import pausing
import torch
from torch.utils.data import DataLoader, Dataset

from springtide.training.adapters.pytorch import Resumable


class Noisy(Dataset):
    def __len__(self):
        return 96

    def __getitem__(self, index):
        data = torch.linspace(0, index / 96, 8) + 0.1 * torch.randn(8)
        return data + 0.1 * random.random() + 0.1 * float(np.random.rand()), data.sum()


torch.manual_seed(0)
np.random.seed(0)
random.seed(0)
gpu = torch.cuda.is_available()
device = "cuda" if gpu else "cpu"
layers = [torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(16, 1)]
model = torch.nn.Sequential(*layers).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
loader = DataLoader(Noisy(), batch_size=8, shuffle=True, num_workers=2, pin_memory=gpu)
parts = Resumable(model=model, optimizer=optimizer, schedule=schedule)
for epoch in range(parts.restore(), 4):
    for batch in parts.batches(loader):
        data, target = (part.to(device, non_blocking=True) for part in batch)
        with torch.autocast(device, torch.bfloat16):
            mixed = data + 0.01 * random.random() + 0.01 * float(np.random.rand())
            loss = (model(mixed)[:, 0] - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pausing.batch()
    schedule.step()
    parts.done(epoch + 1, of=4, loss=loss.item())
pausing.show(value.detach().cpu().numpy() for value in model.parameters())
