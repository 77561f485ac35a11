"""`passed-to` and `in: args.0` over source: each way in which a function can be handed to a call."""

import textwrap

import pytest

from tensoraudit.extract.derived import complete_store
from tensoraudit.extract.python_source import read_python, read_python_text
from tensoraudit.language.engine import match_rules
from tensoraudit.language.load import RuleSet

HEAD = """\
import functools
from functools import partial
import jax
import numpy
import torch
from threading import Thread
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
"""
LIBRARY = "from lib import draw, other, run\n"
INSIDE = "{call: lib.draw, inside: {passed-to: {call: lib.run, argument: '0|f'}}}"


def _states(lang, match, code):
    """Return the state of each match by the text of its line."""
    text = textwrap.dedent(code)
    store = complete_store(read_python_text(text, "a.py").facts)
    lines = text.splitlines()
    found = match_rules(RuleSet((lang.rule(match),)), store, source="", target="")
    return {lines[match.where.line - 1].strip(): match.state for match in found}


@pytest.mark.parametrize(
    ("code", "state"),
    [
        ("def body(x):\n    return draw()\nrun(body)", "certain"),
        ("def body(x):\n    return draw()\nrun(f=body)", "certain"),
        ("def body(x):\n    return draw()\nrun(1, body)", None),
        ("def body(x):\n    return draw()\nbody(run)", None),
        ("run(lambda x: draw(), 3)", "certain"),
        ("other(lambda x: draw(), 3)", None),
        ("run(lambda x: x, draw())", None),
        ("import functools\ndef body(n, x):\n    return draw()\nrun(functools.partial(body, 3))", "certain"),
        ("import functools\ndef body(n, x):\n    return draw()\nf = functools.partial(body, n=3)\nrun(f)", "certain"),
        ("@run\ndef body(x):\n    return draw()", "certain"),
        ("@run(k=1)\ndef body(x):\n    return draw()", "certain"),
        ("import functools\n@functools.partial(run, k=1)\ndef body(x):\n    return draw()", "certain"),
        ("import functools\n@functools.partial(other, k=1)\ndef body(x):\n    return draw()", None),
        ("class N:\n    def a(self):\n        return draw()\n    def b(self):\n        run(self.a)", "certain"),
        ("class N:\n    def a(self):\n        return draw()\n    def b(self):\n        run(self.c)", "suspected"),
        ("class B:\n    def a(self):\n        return draw()\nclass N(B):\n    def b(s):\n        run(s.a)", "certain"),
        ("class B:\n    def forward(self):\n        return draw()\nb = B()\nrun(b)", "certain"),
        ("class B:\n    def forward(self):\n        return draw()\nb = B()\nrun(b.forward)", "certain"),
        ("class B:\n    def forward(self):\n        return draw()\nb = B()\nrun(b.__call__)", "certain"),
        ("class B:\n    def other(self):\n        return draw()\nb = B()\nrun(b)", "suspected"),
        ("@run\nclass B:\n    def forward(self):\n        return draw()", "certain"),
        ("class B:\n    def forward(self):\n        return draw()\nrun(B)", "certain"),
        ("import keras\nclass B(keras.Layer):\n    def call(self):\n        return draw()\nb = B()\nrun(b)", "certain"),
        ("class B:\n    def call(self):\n        return draw()\nb = B()\nrun(b)", "suspected"),
        ("from torch import nn\ndef make():\n    draw()\n    return nn.Linear(7, 7)\nb = make()\nrun(b)", None),
        ("def body(x):\n    return inner()\ndef inner():\n    return draw()\nrun(body)", "certain"),
        ("def body(x):\n    def inner():\n        return draw()\n    return inner()\nrun(body)", "certain"),
        ("def body(x):\n    return body(draw())\nrun(body)", "certain"),
        ("if a:\n    def f():\n        return draw()\nelse:\n    def f():\n        return 1\nrun(f)", "suspected"),
        ("def f():\n    return draw()\ndef g():\n    return 1\nh = f if a else g\nrun(h)", "suspected"),
        ("def f():\n    return draw()\ndef g(h):\n    return run(h)", "suspected"),
        ("def g(h):\n    draw()\n    return run(h)", None),
        ("def f():\n    return draw()\nrun(print)", None),
        ("def f():\n    return draw()\nrun(3)", None),
        ("def f():\n    return draw()\nrun()", None),
        ("draw()\nrun(f)", None),
    ],
)  # fmt: skip
def test_code_in_a_function_that_is_handed_to_a_call(lang, code, state):
    found = [state for line, state in _states(lang, INSIDE, LIBRARY + code).items() if "draw()" in line]
    assert found == ([] if state is None else [state])


def test_conditions_on_the_call_and_on_the_function(lang):
    code = """
        from lib import draw, run
        def first(x):
            return draw(1)
        def second(x):
            return draw(2)
        run(first, keep=False)
        run(second, keep=True)
        """
    match = "{call: lib.draw, inside: {function: %s, passed-to: {call: lib.run, args: {keep: false}}}}"
    assert _states(lang, match % "'**'", code) == {"return draw(1)": "certain"}
    assert _states(lang, match % "second", code) == {}


MODEL = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(7, 7), nn.Dropout(0.5))
        self.plain = nn.Sequential(nn.Linear(7, 7), nn.Dropout(0.0))
        self.own = Own()
        self.layers = nn.ModuleList([Own() for _ in range(3)])
        self.grown = nn.ModuleList()
        self.grown.append(nn.Dropout(0.5))
        self.drop = nn.Dropout(0.5)
        self.built = nn.Sequential(build(7))
        self.method_built = self.build(7)

    def build(self, width):
        return nn.Sequential(nn.Linear(width, width), nn.Dropout(0.5))

    def forward(self, x, given):
        {call}


def build(width):
    return nn.Sequential(nn.Linear(width, width), nn.Dropout(0.5))


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return self.inner(x)


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(x)


class Unused(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)
"""


@pytest.mark.parametrize(
    ("call", "state"),
    [
        ("checkpoint(self.block, x)", "certain"),
        ("checkpoint(self.plain, x)", None),
        ("checkpoint(self.own, x)", "certain"),
        ("checkpoint(self.own.forward, x)", "certain"),
        ("checkpoint(self.own.__call__, x)", "certain"),
        ("for layer in self.layers:\n            x = checkpoint(layer.__call__, x)", "certain"),
        ("checkpoint(self.built, x)", "suspected"),  # the helper may leave it out
        ("checkpoint(self.method_built, x)", "suspected"),
        ("checkpoint(self.drop, x)", "certain"),
        ("for layer in self.layers:\n            x = checkpoint(layer, x)", "certain"),
        ("for i, layer in enumerate(self.layers):\n            x = checkpoint(layer, x)", "certain"),
        ("for layer in self.grown:\n            x = checkpoint(layer, x)", "suspected"),
        ("checkpoint(given, x)", "suspected"),
        ("checkpoint(self.unseen, x)", "suspected"),
        ("checkpoint(torch.relu, x)", None),
        ("checkpoint(lambda t: nn.functional.relu(t), x)", None),
        ("checkpoint(lambda t: self.own(t), x)", None),
        ("checkpoint(*given)", "suspected"),
        ("checkpoint(use_reentrant=True)", None),
    ],
)
def test_code_in_what_an_argument_holds(lang, call, state):
    match = """
        call: torch.utils.checkpoint.checkpoint
        exists: {call: torch.nn.Dropout, args: {p: {not: 0.0}}, in: "args.0|function"}
        """
    code = HEAD + MODEL.replace("{call}", call)
    assert list(_states(lang, match, code).values()) == ([] if state is None else [state])


def test_the_partner_can_share_a_value_with_the_anchor(lang):
    code = """
        from lib import draw, run
        def body(x):
            draw(1)
        run(body, key=1)
        run(body, key=2)
        """
    match = "{call: lib.run, exists: {call: lib.draw, in: args.0, same: {args.0: args.key}}}"
    assert _states(lang, match, code) == {"run(body, key=1)": "certain"}


def test_functions_of_other_files_are_found(lang, tmp_path):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/__init__.py").write_text("")
    (tmp_path / "pkg/bodies.py").write_text("from lib import draw\ndef body(x):\n    return draw()\n")
    (tmp_path / "pkg/train.py").write_text("from lib import run\nfrom pkg.bodies import body\nrun(body)\n")
    store = complete_store(read_python([tmp_path], root=tmp_path).facts)
    found = match_rules(RuleSet((lang.rule(INSIDE),)), store, source="", target="")
    assert [(match.where.path, match.state) for match in found] == [("pkg/bodies.py", "certain")]


def test_work_is_linear_in_chains_of_calls(lang):
    steps = 30_000
    chain = "".join(f"def f{number}():\n    f{number + 1}()\n" for number in range(steps))
    found = _states(lang, INSIDE, f"{LIBRARY}{chain}def f{steps}():\n    draw()\nrun(f0)")
    assert list(found.values()) in ([], ["suspected"])  # beyond the bound nothing is claimed


@pytest.mark.parametrize(
    ("match", "words"),
    [
        ("{call: f, inside: {passed-to: {node: Conv}}}", "passed to a 'call'"),
        ("{call: f, inside: {passed-to: {call: '**'}}}", "literal part"),
        ("{call: f, inside: {passed-to: {call: g, argument: [0]}}}", "names no argument"),
        ("{call: f, inside: {passed-to: {call: g, argument: 'a-b'}}}", "names no argument"),
        ("{call: f, inside: {passed-to: {call: g, arg: 0}}}", "has no field 'arg'"),
        ("{call: f, inside: {passed-to: g}}", "mapping"),
        ("{call: f, inside: {passed_to: {call: g}}}", "did you mean 'passed-to'"),
        ("{call: f, exists: {call: g, in: args.a-b}}", "names no argument"),
        ("{call: f, exists: {call: '**', in: args.0}}", "literal part"),
        ("{call: f, exists: {call: g, in: args.0, before: true}}", "'before' and 'after'"),
        ("{reference: f, exists: {call: g, in: args.0}}", "argument of a call"),
        ("{call: f, exists: {package: torch, in: args.0}}", "argument of a call"),
    ],
)
def test_faults_are_told(lang, match, words):
    assert any(words in text for text in lang.problems(match)), lang.problems(match)
