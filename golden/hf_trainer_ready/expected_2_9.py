import logging
from dataclasses import dataclass, field

from datasets import load_dataset
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    Trainer,
    TrainingArguments,
    default_data_collator,
)

logger = logging.getLogger(__name__)


@dataclass
class Run(TrainingArguments):
    output_dir: str = "runs/lm"
    optim: str = "adamw_torch"
    block_size: int = field(default=512, metadata={"help": "tokens of an example"})


def blocks(rows, size):
    """Cut the concatenated texts into pieces of one length."""
    joined = {key: sum(rows[key], []) for key in rows}
    total = len(joined["input_ids"]) // size * size
    cut = {
        key: [ids[start : start + size] for start in range(0, total, size)]
        for key, ids in joined.items()
    }
    cut["labels"] = cut["input_ids"].copy()
    return cut


def main():
    logging.basicConfig(level=logging.INFO)
    run = Run(
        per_device_train_batch_size=8,
        bf16=True,
        dataloader_drop_last=True,
        dataloader_num_workers=8,
        logging_steps=50,
        seed=1,
    )
    tokenizer = AutoTokenizer.from_pretrained("gpt2")
    text = load_dataset("text", data_files="corpus.txt")["train"]
    ids = text.map(
        lambda rows: tokenizer(rows["text"]), batched=True, remove_columns=["text"]
    )
    data = ids.map(lambda rows: blocks(rows, run.block_size), batched=True, num_proc=8)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained("gpt2"))
    trainer = Trainer(
        model=model,
        args=run,
        train_dataset=data,
        data_collator=default_data_collator,
    )
    result = trainer.train()
    trainer.save_model()
    trainer.save_state()
    logger.info("loss %.4f", result.training_loss)


def _mp_fn(index):
    main()


if __name__ == "__main__":
    main()
