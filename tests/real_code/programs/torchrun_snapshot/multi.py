"""Started by torchrun, with a snapshot that it loads by itself."""

import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Trainer:
    def __init__(self, path):
        self.rank = int(os.environ["RANK"])
        torch.manual_seed(3)
        inputs = torch.randn(128, 4)
        data = TensorDataset(inputs, inputs @ torch.tensor([[1.0], [2.0], [3.0], [4.0]]))
        self.loader = DataLoader(data, batch_size=16, sampler=DistributedSampler(data))
        self.model = torch.nn.Linear(4, 1)
        self.epoch, self.path = 0, path
        if os.path.exists(path):
            saved = torch.load(path)
            self.model.load_state_dict(saved["MODEL_STATE"])
            self.epoch = saved["EPOCHS_RUN"]
            print(f"Resuming training from snapshot at epoch {self.epoch}")
        self.model = DDP(self.model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def train(self, epochs):
        for epoch in range(self.epoch, epochs):
            self.loader.sampler.set_epoch(epoch)
            for inputs, targets in self.loader:
                self.optimizer.zero_grad()
                torch.nn.functional.mse_loss(self.model(inputs), targets).backward()
                self.optimizer.step()
            if self.rank == 0:
                state = {"MODEL_STATE": self.model.module.state_dict(), "EPOCHS_RUN": epoch + 1}
                torch.save(state, self.path + ".tmp")
                os.replace(self.path + ".tmp", self.path)
                print(f"step {epoch + 1}/{epochs}", flush=True)
            time.sleep(0.2)
        if self.rank == 0:
            weights = self.model.module.weight.detach()[0].tolist()
            print("RESULT", dist.get_world_size(), [round(value, 6) for value in weights])


if __name__ == "__main__":
    dist.init_process_group("gloo")
    Trainer("snapshot.pt").train(16)
    dist.destroy_process_group()
