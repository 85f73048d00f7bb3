#!/usr/bin/env python
"""Fine-tune an encoder on pairs of sentences."""
import argparse
import sys

import numpy as np
import torch
from datasets import load_dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    EarlyStoppingCallback,
    Trainer,
    TrainingArguments,
    set_seed,
)


class WeightedTrainer(Trainer):
    """Counts the rare class more."""

    def __init__(self, *args, class_weights=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.class_weights = class_weights

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        weights = self.class_weights.to(outputs.logits.device)
        loss = torch.nn.functional.cross_entropy(outputs.logits, labels, weights)
        return (loss, outputs) if return_outputs else loss


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="roberta-base")
    parser.add_argument("--max-seq-length", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--output", default="runs/pairs")
    return parser.parse_args()


def accuracy(prediction):
    guesses = np.argmax(prediction.predictions, axis=1)
    return {"accuracy": (guesses == prediction.label_ids).mean()}


def main():
    opts = parse()
    set_seed(42)
    raw = load_dataset("csv", data_files={"train": "train.csv", "dev": "dev.csv"})
    tokenizer = AutoTokenizer.from_pretrained(opts.model)

    def encode(rows):
        return tokenizer(
            rows["first"],
            rows["second"],
            truncation=True,
            padding="max_length",
            max_length=opts.max_seq_length,
        )

    data = raw.map(encode, batched=True, num_proc=4)
    model = AutoModelForSequenceClassification.from_pretrained(opts.model, num_labels=2)
    collator = DataCollatorWithPadding(tokenizer, max_length=opts.max_seq_length, padding="max_length")
    args = TrainingArguments(
        output_dir=opts.output,
        per_device_train_batch_size=opts.batch_size,
        num_train_epochs=opts.epochs,
        fp16=True,  # half the memory
        dataloader_num_workers=4,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        report_to="none",
        optim="adamw_torch_xla"
    )
    trainer = WeightedTrainer(
        model=model,
        args=args,
        train_dataset=data["train"],
        eval_dataset=data["dev"],
        data_collator=collator,
        compute_metrics=accuracy,
        callbacks=[EarlyStoppingCallback(early_stopping_patience=2)],
        class_weights=torch.tensor([1.0, 4.0]),
    )
    trainer.train()
    metrics = trainer.evaluate()
    trainer.save_model(opts.output)
    trainer.log_metrics("eval", metrics)
    return 0


def _mp_fn(index):
    main()


if __name__ == "__main__":
    sys.exit(main())
