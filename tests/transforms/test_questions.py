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


def _confirmed(answers: dict[object, object], *order: tuple[str, int]) -> dict[object, object]:
    """What ``("own", 0)`` confirms of questions that ask it again, in an order."""
    questions = Questions()
    state = questions.begin(("own", 0))
    for key in order:
        inner = questions.begin(key)
        questions.is_open(("own", 0))
        questions.end(key)
        assert not questions.settle(key, answers[key], inner)
    questions.end(("own", 0))
    found = questions.confirmed("own", state)
    assert questions.settle(("own", 0), None, state)
    return found


def test_what_took_the_right_answer_for_an_open_question_may_be_kept() -> None:
    answers: dict[object, object] = {("own", 1): "x", ("own", 2): "y"}
    assert _confirmed(answers, ("own", 1), ("own", 2)) == answers


def test_what_may_rest_on_a_question_of_another_kind_is_not_kept_with_it() -> None:
    answers: dict[object, object] = {("own", 1): "x", ("other", 1): "z", ("own", 2): "y"}
    assert _confirmed(answers, ("own", 1), ("other", 1), ("own", 2)) == {("own", 1): "x"}


def test_nothing_is_kept_where_the_question_itself_rests_on_another() -> None:
    questions = Questions()
    questions.begin("outer")
    state = questions.begin(("own", 0))
    inner = questions.begin(("own", 1))
    questions.is_open(("own", 0))
    questions.is_open("outer")
    questions.end(("own", 1))
    questions.settle(("own", 1), "x", inner)
    assert questions.confirmed("own", state) == {}
