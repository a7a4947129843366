"""Unmodified Lightning: the last checkpoint after each epoch, and `ckpt_path="last"`."""

import time

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset


class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))

    def training_step(self, batch, _index):
        inputs, targets = batch
        return torch.nn.functional.mse_loss(self.layers(inputs), targets)

    def on_train_epoch_end(self):
        print(f"step {self.current_epoch + 1}/16", flush=True)
        time.sleep(0.2)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 0.01)


if __name__ == "__main__":
    lightning.seed_everything(7)
    inputs = torch.randn(64, 4)
    data = DataLoader(TensorDataset(inputs, inputs.prod(1, keepdim=True)), batch_size=16)
    model = Regression()
    trainer = lightning.Trainer(
        max_epochs=16,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        callbacks=[ModelCheckpoint("checkpoints", save_last=True)],
    )
    trainer.fit(model, data, ckpt_path="last")
    print("RESULT", [round(value, 6) for value in model.layers[0].weight.detach()[0].tolist()])
