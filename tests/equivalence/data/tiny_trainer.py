import json
import os

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


class Sentences(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        chosen = torch.Generator().manual_seed(index)
        ids = torch.randint(1, 40, (12,), generator=chosen)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids[0] % 2}


def main():
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=40,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = BertForSequenceClassification(config)
    options = {}
    args = TrainingArguments(
        "out",
        num_train_epochs=2,
        per_device_train_batch_size=8,
        learning_rate=1e-2,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    trainer = Trainer(model=model, args=args, train_dataset=Sentences(), **options)
    trainer.train()
    trainer.save_model("out")
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    print("RESULT", json.dumps({"losses": losses, "device": str(next(model.parameters()).device)}))
    print("FILES", sorted(os.listdir("out")))


if __name__ == "__main__":
    main()
