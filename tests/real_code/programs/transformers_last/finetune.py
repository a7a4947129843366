"""A transformers Trainer that looks for its last checkpoint, as the examples of the library do."""

import os
import time

import torch
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint


class Classifier(PreTrainedModel):
    config_class = PretrainedConfig

    def __init__(self, config):
        super().__init__(config)
        self.words = torch.nn.Embedding(100, 16)
        self.dropout = torch.nn.Dropout(0.1)
        self.classifier = torch.nn.Linear(16, 2)
        self.post_init()

    def forward(self, input_ids, labels=None):
        logits = self.classifier(self.dropout(self.words(input_ids).mean(1)))
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


class Sentences(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        words = torch.randint(5, 90, (12,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": words, "labels": words.sum() % 2}


class Steps(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        time.sleep(0.05)
        print(f"step {state.global_step}/{state.max_steps}", flush=True)


def main():
    torch.manual_seed(0)
    model = Classifier(PretrainedConfig())
    arguments = TrainingArguments(
        "out", num_train_epochs=3, per_device_train_batch_size=4, save_steps=4, logging_steps=8,
        report_to=[], disable_tqdm=True, use_cpu=True, seed=5, dataloader_num_workers=0,
    )  # fmt: skip
    last = get_last_checkpoint("out") if os.path.isdir("out") else None
    trainer = Trainer(model=model, args=arguments, train_dataset=Sentences(), callbacks=[Steps()])
    trainer.train(resume_from_checkpoint=last)
    weights = model.classifier.weight.detach()[0][:4].tolist()
    print("RESULT", trainer.state.global_step, [round(value, 6) for value in weights])


if __name__ == "__main__":
    main()
