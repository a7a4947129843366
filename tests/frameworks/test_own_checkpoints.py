"""Checkpoints as the frameworks themselves write them are recognised."""

from __future__ import annotations

import subprocess
from pathlib import Path

import framework_tools
import pytest

from springtide.scheduler.executors.supervisor.checkpoints import newest

pytestmark = pytest.mark.xdist_group("frameworks")

HEAD = "import numpy as np, os, torch\nmodel = torch.nn.Linear(2, 1)\n"
LIGHTNING = """
import lightning

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
    def training_step(self, batch, index):
        return self.layer(batch[0]).sum()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(4, 2)))
lightning.Trainer(max_epochs=1, accelerator="cpu", logger=False).fit(Model(), data)
"""
TRANSFORMERS = """
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

config = BertConfig(
    vocab_size=10, hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4
)
data = [{"input_ids": torch.tensor([1, 2]), "labels": torch.tensor(0)}] * 4
arguments = TrainingArguments("out", save_steps=2, max_steps=2, use_cpu=True, report_to=[])
Trainer(BertForSequenceClassification(config), arguments, train_dataset=data).train()
"""
ACCELERATE = """
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
accelerator.save_state("saved/checkpoint_0")
"""
DISTRIBUTED = """
import torch.distributed.checkpoint as dcp

dcp.save({"model": model.state_dict()}, checkpoint_id="saved/step1")
"""
KERAS = """
os.environ["KERAS_BACKEND"] = "torch"
import keras

class Stop(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1:
            raise RuntimeError("interrupted")

layers = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
layers.compile("sgd", "mse")
try:
    layers.fit(
        np.ones((4, 2)), np.ones((4, 1)), epochs=3, callbacks=[keras.callbacks.BackupAndRestore("backup"), Stop()]
    )
except RuntimeError:
    pass
"""
ORBAX = """
import orbax.checkpoint
from jax import numpy as jnp

with orbax.checkpoint.CheckpointManager(os.path.abspath("saved")) as manager:
    manager.save(3, args=orbax.checkpoint.args.StandardSave({"a": jnp.ones(2)}))
    manager.wait_until_finished()
"""
XGBOOST = """
import xgboost

data = xgboost.DMatrix(np.random.rand(40, 2), np.random.rand(40))
os.mkdir("saved")
xgboost.train({}, data, 2, callbacks=[xgboost.callback.TrainingCheckPoint("saved", interval=1)])
"""


@pytest.mark.parametrize(
    ("program", "path", "by"),
    [
        pytest.param(LIGHTNING, "checkpoints/epoch=0-step=4.ckpt", "Lightning", id="Lightning"),
        pytest.param(TRANSFORMERS, "out/checkpoint-2", "Transformers", id="Transformers"),
        pytest.param(ACCELERATE, "saved/checkpoint_0", "Accelerate", id="Accelerate"),
        pytest.param(DISTRIBUTED, "saved/step1", "PyTorch (distributed)", id="PyTorch"),
        pytest.param(KERAS, "backup", "Keras", id="Keras", marks=pytest.mark.full),
        pytest.param(ORBAX, "saved/3", "Orbax", id="Orbax", marks=pytest.mark.full),
        pytest.param(XGBOOST, "saved/model_1.ubj", "XGBoost", id="XGBoost", marks=pytest.mark.full),
    ],
)
def test_a_checkpoint_that_a_framework_wrote_is_recognised(
    program: str, path: str, by: str, tmp_path: Path
) -> None:
    command = [str(framework_tools.interpreter()), "-c", HEAD + program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    found = newest([str(tmp_path)], 0.0, [], ended=True)
    assert found is not None, sorted(map(str, tmp_path.rglob("*")))
    assert (found.path, found.by) == (path, by)
