"""Which answers are kept for good, and which only while a question is open that had a part in them."""

from __future__ import annotations

from xla_transforms.roles.questions import Questions


def _answer(questions: Questions, key: str, *parts: str, asks: dict[str, tuple[str, ...]]) -> bool:
    """Ask as the analysis does; whether the answer may be kept."""
    state = questions.begin(key)
    for part in parts:
        if questions.lacking(part) is None and not questions.is_open(part):
            _answer(questions, part, *asks.get(part, ()), asks=asks)
    questions.end(key)
    return questions.settle(key, key, state)


def test_what_rests_on_nothing_open_is_kept() -> None:
    assert _answer(Questions(), "a", "b", asks={"b": ("c",)})


def test_a_question_that_leads_to_itself_alone_is_kept() -> None:
    questions = Questions()
    outer = questions.begin("outer")
    assert _answer(questions, "a", "b", asks={"b": ("a",)})
    assert questions.lacking("b") is None  # it lacks a's part, which is known by now
    questions.end("outer")
    assert questions.settle("outer", None, outer)


def test_what_rests_on_an_open_question_is_kept_until_that_is_answered() -> None:
    questions = Questions()
    outer = questions.begin("outer")
    assert not _answer(questions, "a", "b", "outer", asks={"b": ("a",)})
    assert questions.lacking("a") == ("a",)
    assert questions.lacking("b") == ("b",)
    questions.end("outer")
    assert questions.settle("outer", None, outer)
    assert questions.lacking("a") is None


def test_who_hears_a_lacking_answer_lacks_the_same() -> None:
    questions = Questions()
    outer = questions.begin("outer")
    assert not _answer(questions, "a", "outer", asks={})
    assert not _answer(questions, "c", "a", asks={})
    assert _answer(questions, "d", asks={})
    questions.end("outer")
    assert questions.settle("outer", None, outer)


def test_what_rests_on_a_guard_does_not_outlive_the_question_around_it() -> None:
    questions = Questions()
    outer = questions.begin("outer")
    guard = questions.begin("guard")
    assert not _answer(questions, "a", "guard", asks={})
    questions.leave("guard", guard)
    assert not _answer(questions, "b", "a", asks={})
    questions.end("outer")
    assert questions.settle("outer", None, outer)
    assert questions.lacking("a") is None
