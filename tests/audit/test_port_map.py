"""The file of --map: what it may hold, and what it is refused for. A draft that is written is read back the same."""

import pytest
import yaml

from tensoraudit.audit.port_map import Partner, entry, read_map, write_map
from tensoraudit.equivalence.parameter import Term
from tensoraudit.errors import InputError

TEXT = """
inputs:
  image: {name: x, transpose: [0, 3, 1, 2]}
outputs:
  logits: output.0
  lost: null
parameters:
  conv/kernel: {name: conv.weight, transpose: [3, 2, 0, 1]}
  gru/bias: [{name: b_i, take: 0}, {name: b_h, take: 1}]
  ir/bias: sum
  iz/bias: sum
  dense/kernel: {name: dense.weight, steps: [{reshape: [2, 3, 5]}, {transpose: [1, 0, 2]}, {reshape: [6, 5]}]}
"""


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "map.yaml"
        path.write_text(text)
        return str(path)

    return write


def test_a_map_is_read(file):
    read = read_map(file(TEXT))
    assert read.inputs == {"image": Partner("x", (0, 3, 1, 2))}
    assert read.outputs == {"logits": Partner("output.0")}
    assert read.parameters["conv.weight"] == (Term("conv/kernel", ({"transpose": [3, 2, 0, 1]},)),)
    assert read.parameters["b_h"] == (Term("gru/bias", ({"take": 1},)),)
    assert read.parameters["sum"] == (Term("ir/bias"), Term("iz/bias"))
    assert [next(iter(step)) for step in read.parameters["dense.weight"][0].steps] == [
        "reshape",
        "transpose",
        "reshape",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a list", "this is no map"),
        ("weights: {}", "this is no map"),
        ("inputs: [a]", "inputs is no mapping"),
        ("inputs: {a: 5}", "a has the partner 5"),
        ("inputs: {a: {name: b, reverse: [1]}}", "a can only be transposed"),
        ("parameters: {a: {name: b, turn: [1]}}", "a has the step {'turn': \\[1\\]}"),
        ("parameters: {a: {transpose: [1]}}", "a has the partner"),
        ("inputs: {a: [", "while parsing"),
    ],
)
def test_a_map_that_is_none_is_refused(file, text, words):
    with pytest.raises(InputError, match=words):
        read_map(file(text))


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_map(str(tmp_path / "nothing.yaml"))


def test_what_is_written_is_read_back(tmp_path):
    steps = ({"reshape": [2, 3]}, {"transpose": [1, 0]}, {"reshape": [6]})
    path = tmp_path / "draft.yaml"
    rows = [("a: b #", entry("c:0", steps), "by value; the values agree"), ("d", None, "no partner was found")]
    write_map(
        str(path), {"inputs": [("x", entry("y", ({"transpose": [1, 0]},)), "by position")], "parameters": rows}, ["z"]
    )
    read = read_map(str(path))
    assert read.inputs == {"x": Partner("y", (1, 0))}
    assert read.parameters == {"c:0": (Term("a: b #", steps),)}
    text = path.read_text()
    assert "# by value; the values agree" in text and "# without a partner in the candidate: z" in text
    assert yaml.safe_load(text)["outputs"] == {}


def test_a_draft_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(InputError, match="No such file or directory"):
        write_map(str(tmp_path / "no" / "map.yaml"), {})


BOMB = "a: &a [x, x]\nb: &b [*a, *a]\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BOMB, "no aliases"),
        ("inputs: " + "[" * 5000, "while increasing flow level"),
        ("inputs: {a: b, a: c}", "a stands there twice"),
        ("inputs: {}\ninputs: {}", r"inputs stands there twice \(line 2\)"),
        ("outputs: {a: b, c: b}", "a and c have one partner, b"),
        ("inputs: {a: {name: b, transpose: 3}}", "a has the transposition 3"),
        ("inputs: {a: {name: b, transpose: [0, 0, 1]}}", r"a has the transposition \[0, 0, 1\]"),
        ("parameters: {a: {name: b, steps: [{transpose: [1, x]}]}}", "a has the transposition"),
        ("parameters: {a: {name: b, steps: 5}}", "a has the partner"),
        ("inputs: {a: 2026-99-99}", "month must be in"),
        ("# " + "x" * (4 << 20), "larger than 4 MiB"),
    ],
)
def test_a_hostile_map_is_refused_in_a_sentence(file, text, words):
    with pytest.raises(InputError, match=words) as refusal:
        read_map(file(text))
    assert len(str(refusal.value)) < 500


def test_words_that_yaml_reads_as_something_else_are_quoted(tmp_path):
    path = tmp_path / "draft.yaml"
    write_map(str(path), {"parameters": [(word, "null", "by name") for word in ("on", "no", "null", "True", "y")]})
    assert {term.reference for term in read_map(str(path)).parameters["null"]} == {"on", "no", "null", "True", "y"}


def test_a_name_in_a_comment_stays_in_its_line(tmp_path):
    path = tmp_path / "draft.yaml"
    write_map(str(path), {}, ["a\ninputs: {x: y}"])
    assert read_map(str(path)).inputs == {}


def test_a_draft_is_not_written_over_a_file(tmp_path):
    path = tmp_path / "map.yaml"
    path.write_text("mine")
    with pytest.raises(InputError, match="there is a file already"):
        write_map(str(path), {})
    assert path.read_text() == "mine" and [each.name for each in tmp_path.iterdir()] == ["map.yaml"]


def test_a_draft_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def fail(self, text, **options):
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", fail)
    with pytest.raises(InputError, match="No space left"):
        write_map(str(tmp_path / "map.yaml"), {})
    assert list(tmp_path.iterdir()) == []
