"""Texts in Markdown that read as they are; those of strangers where a forge would obey them.

Sources: CommonMark 0.31 (backslash escapes, fences); GitHub Flavored Markdown (raw HTML, autolinks);
GitLab's references.
"""

from __future__ import annotations

import re
import unicodedata

_JOINER = "&#8288;"  # an invisible word joiner: behind it a mention or a reference is none
_MARKUP = re.compile(r"([\\`*_{}\[\]()#+\-.!|~$^=:/])")
_COMMONMARK = re.compile(r"[\\`*_\[\]<>#|~&$]|^(?:[-+=]|\d+(?=[.)]))")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}


def visible(text: str, limit: int = 500) -> str:
    """One line without characters that steer a terminal, hide text or turn its direction; not too long."""
    shown = "".join(_shown(char) for char in text[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def _shown(char: str) -> str:
    if char in "\t\n\r":
        return " "
    return "\N{REPLACEMENT CHARACTER}" if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co") else char


def markup(text: str) -> str:
    """Our own text for a page: no markup comes of it."""
    return _COMMONMARK.sub(_backslash, visible(text, len(text)))


def _backslash(match: re.Match[str]) -> str:
    found = match.group()
    return f"{found}\\" if found.isdigit() else f"\\{found}"


def inline(text: str, limit: int = 500) -> str:
    """Text as it stands, in Markdown: no markup, HTML, mention, reference or link comes of it."""
    escaped = _MARKUP.sub(r"\\\1", "".join(_HTML.get(char, char) for char in visible(text, limit)))
    return _unlinked(re.sub(r"&\\#39;", "&#39;", escaped))


def _unlinked(text: str) -> str:
    # People, issues, merge requests, labels, milestones, epics.
    for sign in ("@", "\\#", "\\!", "\\~", "%", "&amp;"):
        text = text.replace(sign, sign + _JOINER)
    text = text.replace("\\:\\/\\/", f"\\:{_JOINER}\\/\\/")
    return re.sub(r"\b(www|GH|gh)(?=\\[.-])", rf"\1{_JOINER}", text)


def code(text: str, limit: int = 200) -> str:
    """Text as code within a line, where a table may stand round it; references in code are none."""
    return f"<code>{''.join(_HTML.get(c, c) for c in visible(text, limit)).translate(_IN_CODE)}</code>"


_IN_CODE = str.maketrans({char: f"&#{ord(char)};" for char in "\\`*_{}[]()#!|~$@:%^="})


def fenced(text: str, language: str = "") -> str:
    """A block of code that nothing within it can end."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    closed = text if not text or text.endswith("\n") else text + "\n"
    return f"{fence}{language}\n{closed}{fence}"


def path(text: str) -> str:
    """A path as code, the middle of a long one left out."""
    return code(text if len(text) <= 160 else f"{text[:60]}…{text[-99:]}")
