"""Literals and arithmetic on them, against Python's own evaluation."""

import ast

import pytest

from tensoraudit.extract.python_values import MOST_ITEMS, literal
from tensoraudit.extract.python_values import binary as apply_binary
from tensoraudit.facts import Unknown


def expression(text):
    return ast.parse(text, mode="eval").body


@pytest.mark.parametrize(
    "text",
    ["3", "-3", "+2.5", "'a'", "True", "(1, 'b')", "()", "1 + 2 * 3", "2**31 - 1", "7 // 2 % 2", "1 / 4", "3 << 4"],
)
def test_a_literal_is_what_python_makes_of_it(text):
    assert literal(expression(text)) == ast.literal_eval(text) if "(" in text or "'" in text else eval(text)


def test_lists_become_tuples_and_dicts_stay():
    assert literal(expression("[1, [2, None], {'a': [3]}]")) == (1, (2, None), {"a": (3,)})


def test_texts_and_tuples_are_put_together():
    assert literal(expression("'a' + 'b'")) == "ab"
    assert literal(expression("(1,) + (2, 3)")) == (1, 2, 3)
    assert literal(expression("'a' + 1")) is None
    assert literal(expression(f"'{'a' * 6000}' + '{'b' * 6000}'")) is None


def test_names_are_asked_for():
    names = {"N": 3, "c.M": 4}
    assert literal(expression("N * 2 + c.M"), lambda node: names.get(ast.unparse(node))) == 10
    assert literal(expression("[N, x]"), lambda node: names.get(ast.unparse(node))) is None


@pytest.mark.parametrize("text", ["x", "[x]", "{x: 1}", "{**x}", "f()", "not 3", "'a' * 3", "None", "...", "2 ** x"])
def test_what_is_no_literal(text):
    assert literal(expression(text)) is None


@pytest.mark.parametrize(
    "text", ["9**9**9", "2**100000", "1 << 10**9", "1e300 * 1e300", "10**-400", "5 % 0", "2.5 << 1"]
)
def test_numbers_that_grow_or_fail_are_not_computed(text):
    assert literal(expression(text)) is None


def test_bools_are_no_numbers_to_calculate_with():
    assert isinstance(apply_binary(ast.Add(), True, 1), Unknown)


def test_long_displays_are_not_kept():
    assert literal(expression(str(list(range(MOST_ITEMS))))) == tuple(range(MOST_ITEMS))
    assert literal(expression(str(list(range(MOST_ITEMS + 1))))) is None


def test_a_long_sum_is_read():
    assert literal(expression(" + ".join(["1"] * 900))) == 900
