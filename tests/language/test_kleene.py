"""The three-valued tables, against Kleene's own definition over the sets of truth values that an answer leaves open."""

from hypothesis import given
from hypothesis import strategies as st

from tensoraudit.language.kleene import NO, UNKNOWN, YES, all_of, any_of, negate, truth

ANSWERS = st.sampled_from([NO, UNKNOWN, YES])
OPEN = {NO: {False}, UNKNOWN: {False, True}, YES: {True}}


def closed(values):
    """The answer that leaves exactly these truth values open."""
    return UNKNOWN if len(values) == 2 else truth(values.pop())


def every_choice(answers):
    choices = [()]
    for answer in answers:
        choices = [(*choice, value) for choice in choices for value in OPEN[answer]]
    return choices


@given(st.lists(ANSWERS, max_size=6))
def test_all_is_what_and_leaves_open(answers):
    assert all_of(answers) is closed({all(choice) for choice in every_choice(answers)})


@given(st.lists(ANSWERS, max_size=6))
def test_any_is_what_or_leaves_open(answers):
    assert any_of(answers) is closed({any(choice) for choice in every_choice(answers)})


@given(ANSWERS)
def test_not_turns_what_is_open(answer):
    assert negate(answer) is closed({not value for value in OPEN[answer]})
    assert negate(negate(answer)) is answer


@given(st.lists(ANSWERS, max_size=6))
def test_de_morgan(answers):
    assert negate(all_of(answers)) is any_of(map(negate, answers))


def test_stops_at_the_first_that_decides():
    def answers(first):
        yield first
        raise AssertionError("asked on")

    assert all_of(answers(NO)) is NO
    assert any_of(answers(YES)) is YES


def test_over_nothing():
    assert all_of([]) is YES
    assert any_of([]) is NO
