"""transformers: dropout, shuffle, augmented data, bfloat16, accumulated gradients."""

import numpy as np
import pausing
import torch
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainerCallback, TrainingArguments

from springtide.training.adapters import huggingface


class Model(PreTrainedModel):
    config_class = PretrainedConfig

    def __init__(self, config):
        super().__init__(config)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(16, 1)
        )
        self.post_init()

    def forward(self, data, **_):
        noise = 0.1 * torch.randn_like(data) + 0.1 * float(np.random.rand())
        return {"loss": (self.layers(data + noise)[:, 0] - data.sum(1)).square().mean()}


class Count(TrainerCallback):
    def on_step_end(self, *_, **__):
        pausing.batch()


torch.manual_seed(0)
model = Model(PretrainedConfig())
rows = [{"data": row} for row in torch.randn(96, 8)]
arguments = TrainingArguments(
    "trained",
    num_train_epochs=4,
    per_device_train_batch_size=4,
    gradient_accumulation_steps=2,
    dataloader_num_workers=2,
    bf16=True,
    use_cpu=not torch.cuda.is_available(),
    save_strategy="epoch",
    report_to=[],
    remove_unused_columns=False,
    disable_tqdm=True,
)
trainer = Trainer(model, arguments, train_dataset=rows, callbacks=[Count(), huggingface.callback()])
trainer.train(resume_from_checkpoint=huggingface.latest())
pausing.show(value.detach().cpu().numpy() for value in model.parameters())
