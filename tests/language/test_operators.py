"""Every value test, over values that are there, absent and not known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensoraudit.facts import ABSENT, Import, Name, Site, Unknown, Value
from tensoraudit.facts.graph_index import UNSURE
from tensoraudit.facts.store import FactStore
from tensoraudit.language.document import read_documents
from tensoraudit.language.kleene import NO, UNKNOWN, YES, negate
from tensoraudit.language.operators import OPERATORS, compile_test
from tensoraudit.language.problems import Wrong
from tensoraudit.language.schema import (
    ARGUMENT,
    BOOLEAN,
    BY_KEY,
    CONSTANT,
    DATA,
    DIMENSION,
    NAMES,
    NUMBER,
    ROLE,
    SHAPE,
    TEXT,
    VALUES,
    VERSION,
)

STORE = FactStore([Import("torch", ("torch",), 0, Site("a.py"), "source")])
HIDDEN = Unknown("hidden")


def tree(text):
    documents, problems = read_documents(f"k: {text}", "r.yaml")
    assert not problems
    return documents[0].items["k"]


def ask(text, value, kind=DATA):
    return compile_test(tree(text), kind)(value, STORE)


CASES = [
    # scalars: equal, type included
    ("1", DATA, [(1, YES), (2, NO), (1.0, NO), (True, NO), ("1", NO), (None, NO)]),
    ("true", DATA, [(True, YES), (1, NO), ("true", NO), (False, NO)]),
    ("1.0", DATA, [(1.0, YES), (1, NO)]),
    ("0.1", DATA, [(0.1, YES), (0.10000000149011612, YES), (0.1000001, NO), (1e300, NO)]),
    (".nan", DATA, [(float("nan"), YES), (0.0, NO)]),
    ("1e39", DATA, [(1e39, YES), (2e39, NO)]),
    ("null", ARGUMENT, [(None, YES), (0, NO), (ABSENT, NO)]),
    ('""', TEXT, [("", YES), ("a", NO)]),
    # one of
    ("[1, 2]", DATA, [(1, YES), (2, YES), (3, NO), (True, NO), ([1, 2], NO)]),
    ("[a, {regex: ^b}]", TEXT, [("a", YES), ("bc", YES), ("c", NO), (ABSENT, NO), (HIDDEN, UNKNOWN)]),
    ("[1, {present: false}]", DATA, [(1, YES), (ABSENT, YES), (2, NO), (HIDDEN, UNKNOWN)]),
    ("{in: [x, y]}", TEXT, [("x", YES), ("z", NO)]),
    # is
    ("{is: [1, 2]}", DATA, [((1, 2), YES), ([1, 2], YES), ((1, 2, 3), NO), ((1, HIDDEN), UNKNOWN), ((2, HIDDEN), NO)]),
    ("{is: a}", TEXT, [("a", YES), ("b", NO)]),
    # not
    ("{not: 1}", DATA, [(1, NO), (2, YES), (ABSENT, YES), (HIDDEN, UNKNOWN)]),
    # order
    ("{lt: 2}", NUMBER, [(1, YES), (2, NO), (1.5, YES), (True, NO), ("1", NO), (ABSENT, NO), (HIDDEN, UNKNOWN)]),
    ("{le: 2}", NUMBER, [(2, YES), (3, NO)]),
    ("{gt: 2}", NUMBER, [(3, YES), (2, NO)]),
    ("{ge: 2, lt: 4}", NUMBER, [(2, YES), (3.9, YES), (4, NO), (1, NO)]),
    # text
    ("{regex: b+$}", TEXT, [("abb", YES), ("ba", NO), (ABSENT, NO), (HIDDEN, UNKNOWN)]),
    ("{regex: b}", DATA, [(3, NO), (("b",), NO)]),
    (
        "{contains: b}",
        DATA,
        [("abc", YES), (("b",), YES), ({"b": 1}, YES), (("ab",), NO), (3, NO), (("a", HIDDEN), UNKNOWN)],
    ),
    ("{contains: 1}", DATA, [((1,), YES), ((True,), NO), ("1", NO)]),
    ('{version: ">=2.6"}', DATA, [("2.6.0", YES), ("2.13.0+cpu", YES), ("2.5.1", NO), ("dev", UNKNOWN), (3, UNKNOWN)]),
    ('">=2.6,<3"', VERSION, [("2.6", YES), ("3.0", NO), ("2.6.0.dev1", NO), ("2.7.0.dev1", YES), (ABSENT, NO)]),
    ('">=2.6.0.dev0"', VERSION, [("2.6.0.dev1", YES)]),
    # there or not
    ("{present: true}", ARGUMENT, [(None, YES), (HIDDEN, YES), (Name("x"), YES), (ABSENT, NO), (UNSURE, UNKNOWN)]),
    ("{present: false}", ARGUMENT, [(None, NO), (HIDDEN, NO), (ABSENT, YES), (UNSURE, UNKNOWN)]),
    (
        "{literal: true}",
        ARGUMENT,
        [
            (1, YES),
            ((1, "a"), YES),
            ((1, Name("x")), NO),
            ({"a": HIDDEN}, NO),
            (Name("x"), NO),
            (HIDDEN, NO),
            (ABSENT, NO),
            (UNSURE, UNKNOWN),
        ],
    ),
    ("{literal: false}", ARGUMENT, [(1, NO), (Name("x"), YES), (ABSENT, NO)]),
    ("{known: true}", ARGUMENT, [(1, YES), (Name("x"), NO), (HIDDEN, NO), (ABSENT, NO), (UNSURE, NO)]),
    ("{known: true}", ARGUMENT, [(Name("print"), YES), (Name("print()"), NO)]),
    ("{known: false}", ARGUMENT, [(1, NO), (Name("x"), YES), (HIDDEN, YES), (ABSENT, NO), (UNSURE, UNKNOWN)]),
    (
        "{name: torch.float16}",
        ARGUMENT,
        [
            (Name("torch.float16"), YES),
            (Name("torch.float32"), NO),
            (Name("x"), UNKNOWN),
            (Name("self.dtype"), UNKNOWN),
            (Name("torch.load()"), UNKNOWN),
            (Name("int"), NO),
            ("torch.float16", NO),
            (HIDDEN, UNKNOWN),
            (ABSENT, NO),
        ],
    ),
    ("{name: [self.**, x]}", ARGUMENT, [(Name("self.a.b"), YES), (Name("x"), YES), (Name("y"), UNKNOWN)]),
    # a name and a constant
    (
        "true",
        ARGUMENT,
        [
            (Name("flag"), UNKNOWN),
            (Name("torch.Mode.EVAL"), NO),
            (Name("torch.f()"), UNKNOWN),
            (Name("torch.a[]"), UNKNOWN),
        ],
    ),
    (
        "[true, 3]",
        ARGUMENT,
        [(Name("flag"), UNKNOWN), (Name("torch.Mode.EVAL"), NO), (3, YES), (ABSENT, NO), ([3], NO)],
    ),
    ("{gt: 1}", ARGUMENT, [(Name("torch.pi"), UNKNOWN)]),
    # shapes
    ("{rank: 2}", SHAPE, [((1, "n"), YES), ((1,), NO), (HIDDEN, UNKNOWN), (ABSENT, NO)]),
    ("{rank: {ge: 3}}", SHAPE, [((1, 2, 3), YES), ((1, 2), NO)]),
    ("{any: {dim: symbolic}}", SHAPE, [((1, "n"), YES), ((1, 2), NO), ((1, HIDDEN), UNKNOWN), (HIDDEN, UNKNOWN)]),
    ("{every: {dim: static}}", SHAPE, [((1, 2), YES), ((1, "n"), NO), ((), YES)]),
    (
        "{1: {gt: 3}}",
        SHAPE,
        [((1, 4), YES), ((1, 3), NO), ((1, "n"), UNKNOWN), ((1,), NO), (HIDDEN, UNKNOWN), (ABSENT, NO)],
    ),
    ("{-1: 4}", SHAPE, [((1, 4), YES), ((1, "n"), UNKNOWN), ((), NO)]),
    ("{is: [1, n]}", SHAPE, [((1, "n"), YES), ((1, "m"), NO), ((1, 5), NO)]),
    ("{is: [1, 5]}", SHAPE, [((1, 5), YES), ((1, "n"), UNKNOWN), ((2, "n"), NO)]),
    # quantifiers
    (
        "{any: {gt: 1}}",
        DATA,
        [((1, 2), YES), ((1, 1), NO), ((), NO), (3, NO), ((1, HIDDEN), UNKNOWN), ((2, HIDDEN), YES), (ABSENT, NO)],
    ),
    (
        "{every: {gt: 1}}",
        DATA,
        [((2, 2), YES), ((1, 2), NO), ((), YES), ((2, HIDDEN), UNKNOWN), ((1, HIDDEN), NO), (ABSENT, NO)],
    ),
    (
        "{none: {gt: 1}}",
        DATA,
        [((1, 1), YES), ((1, 2), NO), ((), YES), ((1, HIDDEN), UNKNOWN), (ABSENT, NO), (Name("x"), UNKNOWN)],
    ),
    ("{count: 2}", DATA, [((1, 2), YES), ((1,), NO), ({"a": 1, "b": 2}, YES), (3, NO), (HIDDEN, UNKNOWN)]),
    (
        "{count: {of: {gt: 1}, ge: 2}}",
        DATA,
        [((2, 2), YES), ((2, 1), NO), ((2, HIDDEN), UNKNOWN), ((2, 2, HIDDEN), YES), ((1, HIDDEN), NO)],
    ),
    ("{any: {lt: 0}}", CONSTANT, [(((1.0, -1.0), (2.0, 3.0)), YES), (((1.0,), ((2.0,),)), NO), (((), ()), NO)]),
    ("{count: 4}", CONSTANT, [(((1, 2), (3, 4)), YES)]),
    # names in lists
    ("torch.nn.**", NAMES, [(("a", "torch.nn.Module"), YES), (("a",), NO), ((), NO), (HIDDEN, UNKNOWN)]),
    ("[a, b.*]", NAMES, [(("b.c",), YES), (("c",), NO)]),
    ("{any: {regex: ^a}}", NAMES, [(("ab",), YES), (("b",), NO)]),
    # mappings
    (
        "{axis: 1, keep: {present: false}}",
        BY_KEY,
        [({"axis": 1}, YES), ({"axis": 1, "keep": 0}, NO), ({}, NO), (ABSENT, NO), (HIDDEN, UNKNOWN), (None, NO)],
    ),
]


@pytest.mark.parametrize(
    ("text", "kind", "value", "answer"),
    [(text, kind, value, answer) for text, kind, rows in CASES for value, answer in rows],
)
def test_answer(text, kind, value, answer):
    assert ask(text, value, kind) is answer


def test_every_operator_has_a_case():
    texts = " ".join(text for text, _, _ in CASES)
    assert [name for name in OPERATORS if f"{name}:" not in texts] == []


def test_values_of_a_model():
    value = Value("x", "float32", ("batch", 3), ABSENT, "input", "main", "target")
    assert ask("{any: {name: x, shape: {0: {dim: symbolic}}}}", (value,), VALUES) is YES
    assert ask("{any: {name: y}}", (value,), VALUES) is NO
    assert ask("{every: {dtype: float32, role: input}}", (value,), VALUES) is YES
    assert ask("{count: 1}", (value,), VALUES) is YES


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "a", "2.6", "torch"]) | st.just(HIDDEN),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)


@given(PLAIN, st.sampled_from([text for text, kind, _ in CASES if kind is DATA]))
def test_not_is_the_opposite_whatever_the_value(value, text):
    assert ask(f"{{not: {text}}}", value) is negate(ask(text, value))


@given(st.sampled_from([text for text, kind, _ in CASES if kind is DATA and "present" not in text]))
def test_what_is_not_known_is_unknown(text):
    assert ask(text, HIDDEN) is UNKNOWN


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("{regexp: a}", DATA, "'regexp' is no test; did you mean 'regex'?"),
        ("{gt: x}", NUMBER, "'gt' takes a number, not 'x'"),
        ("{gt: true}", NUMBER, "'gt' takes a number, not True"),
        ("{rank: 4}", TEXT, "'rank' does not fit a text"),
        ("{literal: true}", DATA, "'literal' does not fit a value"),
        ("{0: 1}", TEXT, "a text has no elements to number"),
        ("{}", DATA, "an empty mapping tests nothing"),
        ("[]", DATA, "an empty list means one of nothing"),
        ("{in: 3}", DATA, "'in' takes a list"),
        ("{in: []}", DATA, "never holds"),
        ("{present: 1}", DATA, "'present' must be true or false, not 1"),
        ("{regex: '('}", TEXT, "'(' is no regular expression"),
        ("{dim: fixed}", DIMENSION, "'fixed' is no kind of dimension"),
        ("{count: x}", DATA, "'x' can never equal a number"),
        ("{name: 3}", ARGUMENT, "a name is the number 3 here; quote it"),
        ("{name: []}", ARGUMENT, "a name is an empty list"),
        ("2.10", VERSION, "a version range is the number 2.1 here; quote it to make it text"),
        ('"2.6"', VERSION, "'2.6' is no version range such as '>=2.6,<2.9'; write '==2.6' for exactly that one"),
        ("new", VERSION, "'new' is no version range"),
        ("1", TEXT, "1 can never equal a text; quote it"),
        ("[1, 3]", SHAPE, "a shape needs an operator"),
        ("3", SHAPE, "a shape needs an operator"),
        ("initialiser", ROLE, "'initialiser' is no role; did you mean 'initializer'?"),
        ("1", BOOLEAN, "1 can never equal a true or false"),
        ("3", BY_KEY, "a test by key must be a mapping, not 3"),
        ("{any: {colour: 1}}", VALUES, "a value has no field 'colour'"),
    ],
)
def test_what_is_refused(text, kind, words):
    with pytest.raises(Wrong) as refused:
        compile_test(tree(text), kind)
    assert words in refused.value.text
