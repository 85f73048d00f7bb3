"""What must hold for any migrated text, whatever the passes wrote; shared by the corpus and the tests."""

from __future__ import annotations

import ast
import io
import tokenize
import warnings
from collections import Counter
from collections.abc import Iterator

from pyflakes.checker import Checker
from pyflakes.messages import UndefinedName

from xla_transforms.comments import is_pragma


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


def comments(code: str) -> Iterator[tuple[str, str]]:
    """Every comment of a text, with the code of its line."""
    lines = io.StringIO(code.removeprefix("\ufeff").replace("\f", " "), newline="")
    for token in tokenize.generate_tokens(lines.readline):
        if token.type == tokenize.COMMENT:
            yield token.string.rstrip(), token.line[: token.start[1]].strip()


def lost_comments(before: str, after: str) -> list[str]:
    """The comments of ``before`` that ``after`` does not have, as often.

    What is said to a linter or a type checker about one line (``# noqa``, ``# type: ignore``) may go with
    that line: it is lost only where a line with the same code is still there.
    """
    was, now = list(comments(before)), list(comments(after))
    gone = Counter(comment for comment, _ in was) - Counter(comment for comment, _ in now)
    lines = {line.partition("#")[0].strip() for line in after.splitlines()}
    spoken = {comment for comment, code in was if is_pragma(comment) and code not in lines}
    return sorted(comment for comment in gone.elements() if comment not in spoken)
