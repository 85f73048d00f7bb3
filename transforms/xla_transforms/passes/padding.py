"""Padding to the longest member of a batch: a fixed length where the script says which, else a finding.

The tool never invents a length. Where texts are cut at ``max_length`` as well, padding to it gives every
batch one shape. It is written only where more padding changes no number: around models that classify and are
given the mask, and whose labels are not the padded ids.
Sources: pytorch/xla#6413; transformers, "Padding and truncation" and its collators; SageMaker's guide.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from xla_transforms.context import Context
from xla_transforms.findings import Rule, Safety, Severity
from xla_transforms.roles import Kind
from xla_transforms.roles.facts import of_kind
from xla_transforms.statements import feeds_device
from xla_transforms.tree import argument, given, has_star, method, same, string_value, value_of

PADDING = Rule(
    "XLA901",
    "dynamic-padding",
    "Batches are padded to their longest member, so every batch may have a new shape.",
    "Every new length is a new compilation (pytorch/xla#6413; fairseq#4198: 429 of them in 493 steps).",
    Severity.WARNING,
    Safety.UNSAFE,
)
RULES = (PADDING,)

# Collators that pad, with the place of ``padding`` among their arguments.
_COLLATORS = {
    "DataCollatorWithPadding": 1,
    "DataCollatorForTokenClassification": 1,
    "DataCollatorForMultipleChoice": 1,
    "DataCollatorForSeq2Seq": 2,
}
# Collators that pad to the longest member, and have no argument about it.
_ALWAYS = ("DataCollatorForLanguageModeling", "DataCollatorForWholeWordMask", "DataCollatorForSOP")
_FLAT = "DataCollatorWithFlattening"
# Models whose loss and result leave padded places out, as long as they are given the attention mask.
_MASKED = ("ForSequenceClassification", "ForTokenClassification", "ForMultipleChoice", "ForQuestionAnswering")
_FIXED = 'padding="max_length", max_length=<the longest you need>'


def run(context: Context) -> None:
    if not feeds_device(context):
        return
    for call in context.index.all(cst.Call):
        assert isinstance(call, cst.Call)
        path = context.roles.path(call.func)
        name = path.rpartition(".")[2]
        if path == "torch.nn.utils.rnn.pad_sequence":
            message = "pad_sequence pads to the longest sequence of each batch: every new length compiles"
            advice = "pad on to a constant length (torch.nn.functional.pad), or to a few lengths"
            context.plan.report(PADDING, call, message, advice)
        elif name in _COLLATORS and path.startswith("transformers."):
            padding = value_of(call, "padding", _COLLATORS[name])
            if padding is None or _longest(padding):
                _collator(context, call, name, padding)
        elif name in _ALWAYS and path.startswith("transformers.") and not _padded_before(context):
            _report(context, call, f"{name}, where texts differ in length,", Severity.INFO)
        elif name == _FLAT and path.startswith("transformers."):
            message = f"{name} joins the texts of a batch: every new sum of lengths is a new compilation"
            context.plan.report(PADDING, call, message, f"take DataCollatorWithPadding, and write {_FIXED}")
        elif not path.startswith("torch.") and _longest(value_of(call, "padding")):
            _tokenizer(context, call)
        elif method(call) == "pad" and given(call, "return_tensors") and not given(call, "padding"):
            _report(context, call, "pad without padding=")
    for call in context.frameworks.trainers:
        if context.roles.index(call) is context.index and _collates_by_default(context, call):
            _report(context, call, "Trainer with a tokenizer and no data_collator=")


def _collates_by_default(context: Context, call: cst.Call) -> bool:
    """Whether Trainer makes the collator itself, which pads to the longest text: it is given a tokenizer."""
    chosen = value_of(call, "data_collator", 2)
    tokenizer = value_of(call, "processing_class") or value_of(call, "tokenizer")
    chooses = chosen is not None and getattr(chosen, "value", "") != "None"
    if tokenizer is None or has_star(call) or chooses:
        return False
    own = all(path.partition(".")[0] == "transformers" for path in context.frameworks.classes(call.func))
    return own and _is_tokenizer(context, tokenizer) and not _padded_before(context)


def _padded_before(context: Context) -> bool:
    """Whether texts are padded to a fixed length where they are made into tokens."""
    modules = context.program.modules.values()
    calls = (c for index in modules for c in index.all(cst.Call) if isinstance(c, cst.Call))
    return any("max_length" in _strings(context, value_of(c, "padding")) for c in calls)


def _strings(context: Context, node: cst.BaseExpression | None) -> set[str]:
    """The texts that an expression may be."""
    if node is None:
        return set()
    facts = context.roles.facts(node)
    return {f.detail for f in of_kind(facts, Kind.STRING)} | {string_value(node) or ""}


def _longest(padding: cst.BaseExpression | None) -> bool:
    return string_value(padding) == "longest" or (isinstance(padding, cst.Name) and padding.value == "True")


def _tokenizer(context: Context, call: cst.Call) -> None:
    padding = value_of(call, "padding")
    assert padding is not None
    written = f"padding={context.index.source.code(padding)}"
    fits = _is_tokenizer(context, call.func) and given(call, "max_length") is not None
    if fits and _truncates(call) and _masked(context) and context.plan.free(padding):
        change = context.plan.change(PADDING, padding, f"{written} gives every batch another shape")
        change.replace(padding, '"max_length"')
        context.plan.report(PADDING, call, f"{written} becomes max_length, one shape", fixed=True)
    else:
        _report(context, call, written)


def _is_tokenizer(context: Context, node: cst.BaseExpression) -> bool:
    """Whether an expression is a tokenizer of transformers, or its method ``batch_encode_plus``."""
    named = isinstance(node, cst.Attribute) and node.attr.value in ("batch_encode_plus", "encode_plus")
    holder = node.value if named and isinstance(node, cst.Attribute) else node
    details = (f.detail for f in context.roles.facts(holder))
    return any(d.startswith("transformers.") and "Tokenizer" in d for d in details)


def _truncates(call: cst.Call) -> bool:
    """Whether texts longer than ``max_length`` are cut: else they would keep a shape of their own."""
    truncation = given(call, "truncation")
    return truncation is not None and getattr(truncation.value, "value", "") != "False"


def _masked(context: Context) -> bool:
    """Whether padded places count nowhere: in no model, as no label, in no text that is generated."""
    classes = context.frameworks.models
    masked = bool(classes) and all(name.endswith(_MASKED) for name in classes)
    return masked and _mask_given(context) and not _ids_as_labels(context)


def _mask_given(context: Context) -> bool:
    """Whether models get the mask: from Trainer, by name, or with all that a tokenizer gives."""
    if context.program.calls.get("generate"):
        return False
    modules = context.program.modules.values()
    starred = any(getattr(arg, "star", "") == "**" for index in modules for arg in index.all(cst.Arg))
    return bool(context.frameworks.trainers) or starred or context.program.mentions("attention_mask")


def _ids_as_labels(context: Context) -> bool:
    """Whether labels are made of token ids: more padding would then count in the loss."""
    for index in context.program.modules.values():
        places = index.all(cst.Assign, cst.DictElement, cst.Arg)
        texts = (index.source.code(p).replace(":", "=", 1).partition("=") for p in places)
        if any("label" in target and "ids" in value for target, _, value in texts):
            return True
    return False


def _collator(context: Context, call: cst.Call, name: str, padding: cst.BaseExpression | None) -> None:
    code = context.index.source.code
    written = f"padding={code(padding)}" if padding is not None else f"{name} without padding="
    length = value_of(call, "max_length", _COLLATORS[name] + 1)
    cut = length is not None and any(same(length, other) for other in _cut_lengths(context))
    written_already = padding is not None and not context.plan.free(padding)
    if has_star(call) or not cut or written_already or not _masked(context):
        _report(context, call, written)
        return
    change = context.plan.change(PADDING, call, f"{written} gives every batch another shape")
    if padding is not None:
        change.replace(padding, '"max_length"')
    else:
        change.append(call, call.args, 'padding="max_length"')
    context.plan.report(PADDING, call, f"{written} becomes max_length, one shape", fixed=True)


def _cut_lengths(context: Context) -> Iterator[cst.BaseExpression]:
    """The lengths at which the module's tokenizers cut texts."""
    for call in context.index.all(cst.Call):
        assert isinstance(call, cst.Call)
        length = given(call, "max_length")
        if length is not None and _truncates(call) and _is_tokenizer(context, call.func):
            yield length.value


def _report(context: Context, call: cst.Call, written: str, severity: Severity | None = None) -> None:
    rounded = argument(call, "pad_to_multiple_of")
    ending = "every new length is a new compilation"
    if rounded:
        ending = "its lengths are rounded: a few compilations"
    message = f"{written} pads to the longest text of a batch: {ending}"
    severity = Severity.INFO if rounded else severity
    context.plan.report(PADDING, call, message, f"write {_FIXED}, or pad to a few lengths", severity=severity)
