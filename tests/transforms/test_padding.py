"""Padding to the longest of a batch: a constant length where the script says which, else a finding."""

from __future__ import annotations

import pytest
from helpers import check_noop, check_transformed, findings, migrate

HEAD = """\
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoTokenizer, BertForSequenceClassification, DataCollatorWithPadding

model = BertForSequenceClassification.from_pretrained("bert-base-uncased").cuda()
tok = AutoTokenizer.from_pretrained("bert-base-uncased")
out = model(**batch)
"""


def found(line: str) -> list[tuple[str, int]]:
    return findings(HEAD + line + "\n", "padding")


@pytest.mark.parametrize(
    "line",
    [
        'tok(texts, padding="max_length", max_length=128)',
        "tok(texts, padding=False)",
        "tok(texts)",
        "torch.nn.Conv2d(3, 3, 3, padding=1)",
        'torch.nn.Conv2d(3, 3, 3, padding="same")',
        'DataCollatorWithPadding(tok, padding="max_length", max_length=128)',
    ],
)
def test_constant_shapes(line: str) -> None:
    assert found(line) == []


@pytest.mark.parametrize(
    "line",
    [
        'tok(texts, padding="longest", truncation=True)',
        "tok(texts, padding=True)",
        "DataCollatorWithPadding(tok)",
        "pad_sequence(rows, batch_first=True)",
    ],
)
def test_padding_to_the_longest(line: str) -> None:
    outcome = migrate(HEAD + line + "\n", "padding")
    assert [(f.code, f.severity.label, f.span.line) for f in outcome.findings] == [("XLA901", "warning", 8)]


def test_lengths_that_are_rounded_are_only_mentioned() -> None:
    outcome = migrate(HEAD + "tok(texts, padding=True, pad_to_multiple_of=64)\n", "padding")
    assert [f.severity.label for f in outcome.findings] == ["info"]


@pytest.mark.parametrize(
    "line",
    [
        "tok(texts, padding=True, max_length=64)",  # longer texts would keep their length
        "tok(texts, padding=True, max_length=64, truncation=False)",
        "tok(texts, padding=True, max_length=None, truncation=True)",
        "ours(texts, padding=True, max_length=64, truncation=True)",  # what ours is is not known
        "DataCollatorWithPadding(tok, max_length=64)",  # nothing cuts the texts there
        "DataCollatorWithPadding(tok, True, None)",
    ],
)
def test_without_a_known_length_it_is_left_and_reported(line: str) -> None:
    outcome = check_noop(HEAD + line + "\n", "padding")
    assert [(f.code, f.fixed) for f in outcome.findings] == [("XLA901", False)]


LINE = "rows = tok(texts, padding=True, max_length=64, truncation=True)\n"


@pytest.mark.parametrize(
    "more",
    [
        "rows['labels'] = rows['input_ids'].clone()\n",
        "labels = copy.deepcopy(input_ids)\n",
        "batch = {'labels': target_ids}\n",
        "model(rows, labels=rows.input_ids)\n",
    ],
)
def test_labels_made_of_the_padded_ids_would_change_the_loss(more: str) -> None:
    outcome = check_noop(HEAD + LINE + more, "padding")
    assert [(f.code, f.fixed) for f in outcome.findings] == [("XLA901", False)]


@pytest.mark.parametrize(
    "head",
    [
        HEAD.replace("BertForSequenceClassification", "AutoModel"),  # what the head does is not known
        HEAD.replace("BertForSequenceClassification", "AutoModelForCausalLM"),
        HEAD.replace("**batch", "ids"),  # without the mask
        HEAD + "model.generate(**batch)\n",
    ],
)
def test_where_padded_places_may_count_the_padding_stays(head: str) -> None:
    outcome = check_noop(head + LINE, "padding")
    assert [(f.code, f.fixed) for f in outcome.findings] == [("XLA901", False)]


@pytest.mark.parametrize("padding", ["True", "'longest'"])
@pytest.mark.parametrize("length", ["64", "args.max_length"])
def test_texts_that_are_cut_at_a_length_are_padded_to_it(padding: str, length: str) -> None:
    line = "tok(texts, truncation=True, padding={}, max_length=" + length + ")\n"
    check_transformed(HEAD + line.format(padding), HEAD + line.format('"max_length"'), "padding")


def test_the_older_name_of_the_call() -> None:
    line = "tok.batch_encode_plus(texts, padding={}, max_length=64, truncation='longest_first')\n"
    check_transformed(HEAD + line.format("True"), HEAD + line.format('"max_length"'), "padding")


CUT = HEAD + "rows = tok(texts, truncation=True, max_length=args.length)\n"


def test_a_collator_pads_to_the_length_at_which_texts_are_cut() -> None:
    check_transformed(
        CUT + "collate = DataCollatorWithPadding(tok, max_length=args.length)\n",
        CUT + 'collate = DataCollatorWithPadding(tok, max_length=args.length, padding="max_length")\n',
        "padding",
    )


def test_a_collator_that_says_longest() -> None:
    line = "collate = DataCollatorWithPadding(tok, {}, max_length=args.length)\n"
    check_transformed(CUT + line.format("True"), CUT + line.format('"max_length"'), "padding")


def test_a_collator_with_another_length_is_reported() -> None:
    check_noop(CUT + "collate = DataCollatorWithPadding(tok, max_length=32)\n", "padding")


def test_a_script_around_trainer_need_not_name_cuda() -> None:
    code = HEAD.replace(".cuda()", "") + "from transformers import Trainer\nTrainer(model)\n"
    assert findings(code + "tok(x, padding=True)\n", "padding") == [("XLA901", 10)]
    assert findings(HEAD.replace(".cuda()", "") + "tok(x, padding=True)\n", "padding") == []


# ---- what pads where nothing says so

TRAINED = """\
from transformers import AutoTokenizer, Trainer, TrainingArguments

tok = AutoTokenizer.from_pretrained("bert-base-uncased")
rows = rows.map(lambda row: tok(row["text"], truncation=True{}))
Trainer(net, TrainingArguments("out"), train_dataset=rows{})
"""


def told(padding: str, given: str) -> list[tuple[str, int]]:
    return findings(TRAINED.format(padding, given), "padding")


@pytest.mark.parametrize("given", [", tokenizer=tok", ", processing_class=tok, data_collator=None"])
def test_trainers_own_collator_pads_to_the_longest(given: str) -> None:
    assert told("", given) == [("XLA901", 5)]


@pytest.mark.parametrize(
    ("padding", "given"),
    [
        ("", ""),
        ("", ", tokenizer=tok, data_collator=default_data_collator"),
        ("", ", tokenizer=tok, data_collator=Collator(tok)"),
        ("", ", processing_class=image_processor"),
        (', padding="max_length"', ", tokenizer=tok"),
    ],
)
def test_trainers_with_another_collator_or_padded_texts(padding: str, given: str) -> None:
    assert told(padding, given) == []


def test_a_collator_of_the_scripts_own_that_calls_pad() -> None:
    assert found('tok.pad(rows, return_tensors="pt")') == [("XLA901", 8)]
    assert found('tok.pad(rows, padding="max_length", max_length=64, return_tensors="pt")') == []
    assert found("torch.nn.functional.pad(rows, (0, 4))") == []


def test_a_collator_that_joins_the_texts_of_a_batch_is_reported() -> None:
    line = "from transformers import DataCollatorWithFlattening\nDataCollatorWithFlattening()\n"
    (reported,) = migrate(HEAD + line, "padding").findings
    assert (reported.code, reported.severity.label) == ("XLA901", "warning")


def test_a_collator_of_language_models_is_mentioned() -> None:
    line = "from transformers import DataCollatorForLanguageModeling as Collator\nCollator(tok, mlm=False)\n"
    (mentioned,) = migrate(HEAD + line, "padding").findings
    assert (mentioned.code, mentioned.severity.label) == ("XLA901", "info")
    assert found(line + 'tok(texts, padding="max_length", max_length=64)') == []


@pytest.mark.parametrize(
    "framework", ["import accelerate\naccelerate.Accelerator()\n", "import lightning as L\nL.Trainer()\n"]
)
def test_padding_is_told_beside_frameworks_that_name_no_gpu(framework: str) -> None:
    code = framework + HEAD.replace(".cuda()", "") + "DataCollatorWithPadding(tok)\n"
    assert findings(code, "padding") == [("XLA901", 10)]
