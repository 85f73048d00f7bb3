import torch
from datasets import load_dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)
import torch_xla.core.xla_model as xm

CHECKPOINT = "distilbert-base-uncased"


def main():
    raw = load_dataset("imdb")
    tok = AutoTokenizer.from_pretrained(CHECKPOINT)

    def encode(rows):
        return tok(rows["text"], truncation=True)

    encoded = raw.map(encode, batched=True, remove_columns=["text"])
    tr, ev = encoded["train"], encoded["test"]
    net = AutoModelForSequenceClassification.from_pretrained(CHECKPOINT, num_labels=2)
    print("training on", xm.xla_device_hw(xm.xla_device()))

    conf = TrainingArguments(
        "out",
        per_device_train_batch_size=16,
        fp16=True,
        dataloader_num_workers=4,
        eval_strategy="epoch",
    )
    opt = torch.optim.AdamW(net.parameters(), lr=5e-5)
    coach = Trainer(
        model=net,
        args=conf,
        train_dataset=tr,
        eval_dataset=ev,
        data_collator=DataCollatorWithPadding(tok),
        optimizers=(opt, None),
    )
    coach.train()
    coach.save_model("out/final")


def _mp_fn(index):
    main()


if __name__ == "__main__":
    main()
