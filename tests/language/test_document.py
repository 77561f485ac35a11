"""YAML 1.2 scalars, positions, duplicate keys, and the bounds that hold against bombs."""

import math

import pytest

from tensoraudit.language.document import MAX_BYTES, MAX_DEPTH, MAX_NODES, plain, read_documents


def read(text):
    documents, problems = read_documents(text, "r.yaml")
    return [plain(document) for document in documents], [str(problem) for problem in problems]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"), ("off", "off"), ("yes", "yes"), ("No", "No"), ("y", "y"),
        ("true", True), ("False", False), ("null", None), ("~", None), ("", None),
        ("1e-5", 1e-5), ("1E3", 1000.0), ("-.5", -0.5), ("1.", 1.0), (".inf", math.inf), ("-.inf", -math.inf),
        ("12", 12), ("-3", -3), ("0o17", 15), ("0x1F", 31), ("010", 10), ("1_000", "1_000"), ("12:30", "12:30"),
        ("2001-01-01", "2001-01-01"), ('"2.10"', "2.10"), ("'1'", "1"), ("2.10", 2.1), ("=", "="), ("nan", "nan"),
        ("f", "f"), ("-", None),
    ],
)  # fmt: skip
def test_scalars_are_yaml_1_2(text, value):
    if text == "-":  # a dash alone is a list of one nothing
        value = [None]
        text = "\n  -"
    assert read(f"k: {text}") == ([{"k": value}], [])


def test_nan():
    assert math.isnan(read("k: .nan")[0][0]["k"])


def test_positions_count_from_one():
    (document,), _ = read_documents("a: 1\nb:\n  - c: x\n    d: y\n", "r.yaml")
    item = document.items["b"].items[0]
    assert (document.keys["b"].line, document.keys["b"].column) == (2, 1)
    assert (item.keys["d"].line, item.keys["d"].column) == (4, 5)
    assert (item.items["d"].line, item.items["d"].column) == (4, 8)


def test_a_key_given_twice_names_both_lines():
    assert read("a: 1\nb: 2\na: 3\n")[1] == ["r.yaml:3:1: key 'a' is given twice; the first is in line 1"]


def test_true_is_no_key_and_does_not_hide_one():
    assert read("1: a\ntrue: b\n") == ([{1: "a"}], ["r.yaml:2:1: a key must be a word or a whole number"])


def test_several_documents():
    assert read("a: 1\n---\nb: 2\n---\n")[0] == [{"a": 1}, {"b": 2}]


def test_an_alias_is_read():
    assert read("a: &x [1, 2]\nb: *x\n")[0] == [{"a": [1, 2], "b": [1, 2]}]


def test_aliases_of_one_document_are_unknown_in_the_next():
    assert read("a: &x 1\n---\nb: *x\n")[1] == ["r.yaml:3:4: alias *x has no finished anchor before it"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &x [*x]", "alias *x has no finished anchor"),
        ("a: !!python/object:os.system x", "tags such as tag:yaml.org,2002:python/object:os.system"),
        ("- 1", "a rule is a mapping of keys"),
        ("a: [1, 2", "not YAML"),
        ("a: \x00", "not YAML"),
        ("a: b: c", "not YAML"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), f"nested deeper than {MAX_DEPTH}"),
        ("? [a, b]\n: 1", "a key must be a word"),
    ],
)
def test_what_is_refused(text, words):
    assert words in "\n".join(read(text)[1])


def test_a_bomb_of_aliases_ends_at_once():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert f"more than {MAX_NODES} values once its aliases are written out" in read("\n".join(lines))[1][0]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"[{'x,' * MAX_NODES}", f"1:{2 * MAX_NODES}"),
        (f"a: [{'x,' * 9_000}]\nb: [{'x,' * 9_000}]\nc: [{'x,' * 2_000}]", "3:4"),
        (f"a: &a [{'x,' * (MAX_NODES - 5)}]\nb: *a", "1:4"),
        (f"a: &a [{'x,' * (MAX_NODES - 4)}]\nb: z", "2:4"),
    ],
)
def test_the_value_that_is_one_too_many_is_named(text, place):
    assert read(text)[1] == [f"r.yaml:{place}: more than {MAX_NODES} values once its aliases are written out"]


def test_as_many_values_as_may_be():
    assert read(f"a: [{'x,' * (MAX_NODES - 3)}]")[1] == []


def test_a_million_open_brackets_end_at_once():
    assert "nest" in read("[" * (MAX_BYTES - 1))[1][0]  # libyaml looks ahead and may refuse it first


def test_a_file_too_large_is_not_even_scanned():
    assert "larger than 1 MiB" in read(" " * (MAX_BYTES + 1))[1][0]
