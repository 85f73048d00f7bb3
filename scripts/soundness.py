"""What must hold for any migrated text, whatever the passes wrote; shared by the corpus and the tests."""

from __future__ import annotations

import ast
import io
import tokenize
import warnings
from collections import Counter

from pyflakes.checker import Checker
from pyflakes.messages import UndefinedName


def compiles(code: str) -> bool:
    """Whether Python takes the text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(code.removeprefix("\ufeff"), "<migrated>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def undefined_names(code: str) -> set[str]:
    """The names that pyflakes calls undefined. Raises ``SyntaxError`` for text that does not parse."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        messages = Checker(ast.parse(code.removeprefix("\ufeff"))).messages
    return {str(message.message_args[0]) for message in messages if isinstance(message, UndefinedName)}


def comments(code: str) -> Counter[str]:
    """Every comment of a text with the number of its occurrences."""
    tokens = tokenize.generate_tokens(io.StringIO(code.removeprefix("\ufeff")).readline)
    return Counter(token.string for token in tokens if token.type == tokenize.COMMENT)


def lost_comments(before: str, after: str) -> list[str]:
    """The comments of ``before`` that ``after`` does not have."""
    return sorted((comments(before) - comments(after)).elements())
