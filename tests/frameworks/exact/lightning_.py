"""Lightning: dropout, shuffle, workers that augment the data, bfloat16, accumulated gradients, validation."""

import random

import lightning
import numpy as np
import pausing
import torch
from torch.utils.data import DataLoader, Dataset

from springtide.training.adapters.lightning import callback, latest


class Noisy(Dataset):
    def __len__(self):
        return 96

    def __getitem__(self, index):
        data = torch.linspace(0, index / 96, 8) + 0.1 * torch.randn(8)
        return data + 0.1 * random.random() + 0.1 * float(np.random.rand()), data.sum()


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(16, 1)
        )

    def training_step(self, batch, _):
        data, target = batch
        loss = (self.layers(data + 0.01 * random.random())[:, 0] - target).square().mean()
        self.log("loss", loss, on_epoch=True)
        return loss

    def validation_step(self, batch, _):
        data, target = batch
        self.log("validation", (self.layers(data)[:, 0] - target).square().mean())

    def on_train_batch_end(self, *_):
        pausing.batch()

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.01, momentum=0.9)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)]


lightning.seed_everything(0)
model = Model()
loader = DataLoader(Noisy(), batch_size=8, shuffle=True, num_workers=2)
trainer = lightning.Trainer(
    accelerator="auto",
    max_epochs=4,
    precision="bf16-mixed",
    accumulate_grad_batches=2,
    callbacks=[callback()],
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(model, loader, DataLoader(Noisy(), batch_size=32), ckpt_path=latest())
pausing.show(value.detach().cpu().numpy() for value in model.parameters())
