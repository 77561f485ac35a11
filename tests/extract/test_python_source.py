"""What facts a piece of Python gives: callees, arguments, blocks, references, operations."""

import gc
import math
import os
import time
from textwrap import dedent

import pytest

from tensoraudit import halves
from tensoraudit.extract import python_source
from tensoraudit.extract.python_source import read_python, read_python_text
from tensoraudit.facts import Call, ClassDef, Import, Name, Operation, Reference, Scope, Unknown


def facts(text, kind, **options):
    read = read_python_text(dedent(text), **options)
    assert not read.skipped
    return [fact for fact in read.facts if isinstance(fact, kind)]


def calls(text):
    """Every call as (callee, ambiguous), in order."""
    return [(call.callee, call.ambiguous) for call in facts(text, Call)]


def last_call(text):
    return facts(text, Call)[-1]


def callee(text):
    """The callee of the last call, which must be the only candidate."""
    call = last_call(text)
    assert not call.ambiguous
    return call.callee


# imports


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch\ntorch.load(f)", "torch.load"),
        ("import torch as th\nth.load(f)", "torch.load"),
        ("import torch.nn.functional as F\nF.gelu(x)", "torch.nn.functional.gelu"),
        ("import torch.nn.functional\ntorch.nn.functional.gelu(x)", "torch.nn.functional.gelu"),
        ("from torch import nn as n\nn.Linear(1, 2)", "torch.nn.Linear"),
        ("from torch import load as restore\nrestore(f)", "torch.load"),
        ("import numpy as np, torch\nnp.random.rand(3)", "numpy.random.rand"),
        ("import torch\nload = torch.load\nload(f)", "torch.load"),
        ("import torch\ndef f():\n    torch.load(f)", "torch.load"),
        ("def f():\n    import torch as t\n    t.load(f)", "torch.load"),
        ("def f():\n    t.load(g)\nimport torch as t", "torch.load"),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None\ntorch.load(f)", "torch.load"),
        ("int(x)", "int"),
        ("f(x)", "?.__call__"),
        ("x.half()", "?.half"),
    ],
)
def test_a_callee_is_resolved_through_imports(text, expected):
    assert callee(text) == expected


def test_a_relative_import_is_absolute_inside_its_package(tmp_path):
    from tensoraudit.extract.python_source import read_python

    package = tmp_path / "pkg" / "models"
    package.mkdir(parents=True)
    (tmp_path / "pkg" / "__init__.py").touch()
    (package / "__init__.py").write_text("from .net import Net\nNet()\n")
    (package / "net.py").write_text(
        "from ..layers import Block\nfrom . import tools\nBlock()\ntools.run()\nclass Net: pass\nNet()\n"
    )
    found = read_python([tmp_path], root=tmp_path).facts
    by_file = {}
    for fact in found:
        if isinstance(fact, Call):
            by_file.setdefault(fact.at.path, []).append(fact.callee)
    assert by_file == {
        "pkg/models/__init__.py": ["pkg.models.net.Net"],
        "pkg/models/net.py": ["pkg.layers.Block", "pkg.models.tools.run", "pkg.models.net.Net"],
    }


def test_a_relative_import_without_a_package_keeps_its_dots():
    assert [fact.module for fact in facts("from ..layers import Block", Import)] == ["..layers"]


def test_a_star_import_makes_a_candidate_that_is_not_sure():
    text = "from torch.nn.functional import *\nfrom helpers import *\nrelu(x)\nlen(x)"
    assert calls(text) == [("torch.nn.functional.relu", True), ("helpers.relu", True), ("len", False)]


def test_a_name_bound_before_the_star_is_itself():
    assert callee("from torch import relu\nfrom helpers import *\nrelu(x)") == "torch.relu"


def test_imports_name_their_module_and_what_they_bind():
    found = facts("import torch.nn\nimport torch as t\nfrom onnx import helper as h, load\nfrom torch import *", Import)
    assert [(fact.module, fact.names) for fact in found] == [
        ("torch.nn", ("torch",)),
        ("torch", ("t",)),
        ("onnx", ("h", "load")),
        ("torch", ("*",)),
    ]


def test_a_from_import_reads_the_name():
    assert [fact.name for fact in facts("from numpy import bool as b", Reference)] == ["numpy.bool"]


# several meanings


def test_two_imports_of_one_name_are_both_candidates():
    text = """
        try:
            from torch.amp import autocast
        except ImportError:
            from torch.cuda.amp import autocast
        autocast("cuda")
    """
    assert calls(text) == [("torch.amp.autocast", True), ("torch.cuda.amp.autocast", True)]


def test_candidates_share_order_and_place():
    first, second = facts("import a, b\nif x:\n    f = a.f\nelse:\n    f = b.f\nf(1)", Call)
    assert (first.order, first.at, first.scope) == (second.order, second.at, second.scope)


def test_an_assignment_replaces_what_the_name_was():
    text = "import torch\nx = torch.optim.Adam(p)\nx = torch.optim.SGD(p)\nx.step()"
    assert callee(text) == "torch.optim.SGD().step"


def test_a_branch_adds_to_what_the_name_was():
    text = "import torch\nx = torch.optim.Adam(p)\nif fast:\n    x = torch.optim.SGD(p)\nx.step()"
    assert calls(text)[-2:] == [("torch.optim.SGD().step", True), ("torch.optim.Adam().step", True)]


def test_a_branch_that_returns_does_not_count_afterwards():
    text = """
        import torch
        def f(x):
            o = torch.optim.Adam(x)
            if x:
                o = None
                return o
            o.step()
    """
    assert callee(text) == "torch.optim.Adam().step"


def test_a_loop_may_have_run_before():
    text = """
        import torch
        def f(p):
            o = torch.optim.Adam(p)
            for _ in p:
                o.step()
                o = torch.optim.SGD(p)
    """
    assert [name for name, _ in calls(text)][1:3] == ["torch.optim.Adam().step", "torch.optim.SGD().step"]


def test_a_name_of_the_module_has_all_its_bindings_inside_a_function():
    text = "import a, b\nf = a.f\ndef g():\n    f()\nf = b.f"
    assert calls(text) == [("a.f", True), ("b.f", True)]


def test_none_is_no_candidate():
    text = "import torch\nopt = None\ndef f():\n    opt.step()\nopt = torch.optim.Adam(p)"
    assert calls(text)[0] == ("torch.optim.Adam().step", False)


def test_too_many_candidates_are_not_known():
    branches = "\n".join(f"if a: f = m{n}.f" for n in range(6))
    imports = ", ".join(f"m{n}" for n in range(6))
    assert callee(f"import {imports}\n{branches}\ndef g():\n    f()") == "?.__call__"


def test_a_local_name_hides_the_import():
    assert callee("import torch\ndef f(torch):\n    torch.load(1)") == "?.load"


def test_a_comprehension_variable_hides_only_inside():
    assert [name for name, _ in calls("import torch\n[torch.f() for torch in x]\ntorch.f()")] == ["?.f", "torch.f"]


def test_a_lambda_parameter_hides_only_inside():
    assert [name for name, _ in calls("import torch\ng = lambda torch: torch.f()\ntorch.f()")] == ["?.f", "torch.f"]


def test_global_reaches_the_module():
    make = "def make():\n    global opt\n    opt = torch.optim.Adam(p)\n"
    text = f"import torch\nopt = None\n{make}def run():\n    opt.step()"
    assert callee(text) == "torch.optim.Adam().step"


# instances and attributes

NET = """
    import torch
    from torch import nn, Tensor
    import torch.nn.functional as F
    class Net(nn.Module):
        def __init__(self, block):
            super().__init__()
            self.conv = nn.Conv2d(3, 3, 3)
            self.drop = nn.Dropout(0.1) if block else nn.Identity()
            self.block = block
            self.lstm = nn.LSTM(3, 3)
            self.n = 0
        def forward(self, x, y: Tensor, z: "torch.Tensor | None" = None):
            {body}
        def helper(self, x):
            return F.relu(x)
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x.item()", "?.item"),
        ("y.item()", "torch.Tensor().item"),
        ("self.conv(x)", "torch.nn.Conv2d().__call__"),
        ("self.conv.forward(x)", "torch.nn.Conv2d().forward"),
        ("self.block(x)", "self.block"),
        ("self.helper(x)", "self.helper"),
        ("self.helper(x).item()", "torch.Tensor().item"),
        ("self.conv(x).item()", "torch.Tensor().item"),
        ("F.relu(x).view(-1).item()", "torch.Tensor().item"),
        ("h = self.conv(x)\n            h = h[0] + 1\n            h.item()", "torch.Tensor().item"),
        ("(y > 0).any().item()", "torch.Tensor().item"),
        ("y.shape.numel()", "torch.Tensor().shape.numel"),
        ("x.data.add_(1)", "?.data.add_"),
        ("self.lstm(x)[0].item()", "?.item"),
        ("self.eval()", "self.eval"),
        ("self.conv.half()", "torch.nn.Module().half"),
        ("super().train(True)", "torch.nn.Module().train"),
        ("torch.max(x, 0).values.item()", "torch.max().values.item"),
    ],
)
def test_the_receiver_of_a_method(body, expected):
    assert facts(NET.format(body=body), Call)[-2].callee == expected


def test_an_attribute_set_in_two_ways_has_two_candidates():
    names = [call.callee for call in facts(NET.format(body="self.drop(x)"), Call) if call.ambiguous]
    assert names == ["torch.nn.Dropout().__call__", "torch.nn.Identity().__call__"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("net = Net(1)\nnet.half()", "torch.nn.Module().half"),
        ("net = Net(1).eval()\nnet.half()", "torch.nn.Module().half"),
        ("net = Net(1)\nnet(x)", "Net().__call__"),
        ("net = Net(1)\nnet.helper(x)", "Net().helper"),
        ("net = Net(1)\nnet.conv(x)", "torch.nn.Conv2d().__call__"),
        ("net = nn.Sequential(a, b).cuda()\nnet.half()", "torch.nn.Module().half"),
        ("opt = torch.optim.Adam(p)\nopt.step()", "torch.optim.Adam().step"),
        ("def make():\n    return torch.optim.Adam(p)\nmake().step()", "torch.optim.Adam().step"),
        ("def make() -> nn.Module: ...\nmake().half()", "torch.nn.Module().half"),
        ("def make(a):\n    return a\nmake(1).half()", "?.half"),
        ("def f(x):\n    return f(x)\nf(1).half()", "?.half"),
        ("with torch.no_grad() as g:\n    g.close()", "torch.no_grad().close"),
        ("model = torch.load(f)['model']\nmodel.half()", "?.half"),
        ("model: nn.Module = make()\nmodel.half()", "torch.nn.Module().half"),
        ("[].append(1)", "list().append"),
        ("if (m := torch.optim.Adam(p)):\n    m.step()", "torch.optim.Adam().step"),
        ("a, b = torch.optim.Adam(p), torch.optim.SGD(p)\nb.step()", "torch.optim.SGD().step"),
        ("a, b = make()\nb.step()", "?.step"),
    ],
)
def test_the_type_of_a_variable(text, expected):
    # `?.__call__` etc. of the class body come first; the text under test is last
    assert last_call(dedent(NET.format(body="pass")) + text).callee == expected


HEAD = """
import copy
from collections.abc import Sequence
from functools import partial
from typing import Dict, List, Optional, Tuple
import torch
from torch import nn
"""
CONV = "torch.nn.Conv2d().__call__"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ms = [C() for _ in r]\nms[-1](x)", CONV),
        ("ms = (C(), nn.ReLU())\nms[1](x)", "torch.nn.ReLU().__call__"),
        ("ms = [C(), C()]\nfor m in ms:\n    m(x)", CONV),
        ("ms = [C()]\n[m(x) for m in ms]", CONV),
        ("ms = [C()]\nms[:2][0](x)", CONV),
        ("ms = {'a': C()}\nms['a'](x)", CONV),
        ("ms = {'a': C()}\nfor k, m in ms.items():\n    m(x)", CONV),
        ("ms = {'a': C()}\nfor m in ms.values():\n    m(x)", CONV),
        ("ms = {'a': C()}\nfor m in ms:\n    m(x)", "?.__call__"),
        ("ms = [C()]\nfor i, (a, b) in enumerate(zip(x, ms)):\n    b(x)", CONV),
        ("ms = [C()]\nfor i, (a, b) in enumerate(zip(x, ms)):\n    a(x)", "?.__call__"),
        ("ms = nn.ModuleList([C() for _ in r])\nfor m in reversed(ms):\n    m(x)", CONV),
        ("ms = nn.Sequential(C(), nn.ReLU())\nms[1](x)", "torch.nn.ReLU().__call__"),
        ("ms = []\nfor i in r:\n    ms.append(C())\nnn.Sequential(*ms)[0](x)", CONV),
        ("ms = []\nms.extend([C()])\nms[0](x)", CONV),
        ("ms = [C()]\nms.append(other)\nms[0](x)", "?.__call__"),
        ("ms = [C()]\nms.insert(0, other)\nms[0](x)", "?.__call__"),
        ("ms = [C()]\nms[0] = other\nms[0](x)", "?.__call__"),
        ("ms = [C()]\ndef f():\n    ms[0](x)", CONV),
        ("ms = [C()]\nms.insert(0, other)\ndef f():\n    ms[0](x)", "?.__call__"),
        ("ms = [C()]\nms += other\nms[0](x)", "?.__call__"),
        ("m = next(iter([C()]))\nm(x)", CONV),
        ("m = copy.deepcopy(C())\nm(x)", CONV),
        ("f = partial(nn.Conv2d, bias=False)\nf(1)", "torch.nn.Conv2d"),
        ("f = partial(nn.Conv2d, bias=False)\nf(1)(x)", CONV),
        ("f = partial(nn.Conv2d, 3)\nf(1)", "functools.partial().__call__"),
        ("def f(m: 'Optional[nn.Conv2d]'):\n    m(x)", CONV),
        ("def f(m: nn.Conv2d | None = None):\n    m(x)", CONV),
        ("def f(m: nn.Conv2d | str):\n    m.half()", None),
        ("def f(ms: list[nn.Conv2d]):\n    for m in ms:\n        m(x)", CONV),
        ("def f(ms: 'Dict[str, List[nn.Conv2d]]'):\n    for k, m in ms.items():\n        m[0](x)", CONV),
        ("def f(ms: Tuple[nn.ReLU, nn.Conv2d]):\n    a, b = ms\n    b(x)", CONV),
        ("def f(ms: Tuple[nn.Conv2d, ...]):\n    ms[5](x)", CONV),
        ("def f(ms: Sequence[nn.Conv2d]):\n    ms[0](x)", CONV),
        ("def f(ms: Sequence[nn.Conv2d]):\n    ms.index(x)", "?.index"),
        ("def f(m: 'not a type ['):\n    m(x)", "?.__call__"),
        ("def f(m: type[nn.Conv2d]):\n    m(x)", "?.__call__"),
        ("def f(m):\n    if isinstance(m, nn.Conv2d) and x:\n        m(x)", CONV),
        ("def f(m):\n    if isinstance(m, nn.Conv2d) or x:\n        m(x)", "?.__call__"),
        ("def f(m):\n    if isinstance(m, nn.Conv2d):\n        pass\n    m(x)", "?.__call__"),
        ("def f(m):\n    if isinstance(m, nn.Conv2d):\n        pass\n    else:\n        m(x)", "?.__call__"),
        ("def f(m):\n    if isinstance(m, nn.Conv2d):\n        m = other\n        m(x)", "?.__call__"),
        ("@torch.no_grad()\ndef f(): return C()\nf()(x)", CONV),
        ("def keep(f):\n    A.append(f)\n    return f\n@keep\ndef f(): return C()\nf()(x)", CONV),
        ("def keep(a):\n    def k(f): return f\n    return k\n@keep(1)\ndef f(): return C()\nf()(x)", CONV),
        ("def wrap(f):\n    return g(f)\n@wrap\ndef f(): return C()\nf()(x)", "?.__call__"),
        ("@unknown\ndef f(): return C()\nf()(x)", "?.__call__"),
        ("a, *b = C(), nn.ReLU()\nb.pop()", "list().pop"),
    ],
)
def test_what_a_container_an_annotation_or_a_decorator_tells(text, expected):
    found = facts(f"{HEAD}\ndef C() -> nn.Conv2d: ...\n{text}", Call)
    found = [call for call in found if call.order == found[-1].order and call.scope == found[-1].scope]
    assert (found[0].callee if not any(call.ambiguous for call in found) else None) == expected


def test_items_of_several_kinds_are_ambiguous():
    found = calls("from torch import nn\nfor m in [nn.ReLU(), nn.GELU()]:\n    m(x)")
    assert found[2:] == [("torch.nn.ReLU().__call__", True), ("torch.nn.GELU().__call__", True)]


CONTAINERS = """
    from torch import nn
    class Net(nn.Module):
        def __init__(self, other):
            self.a = nn.ModuleList()
            for _ in range(3):
                self.a.append(nn.Conv2d(1, 2, 3))
            self.b = nn.ModuleDict()
            self.b["x"] = nn.Conv2d(1, 2, 3)
            self.c, self.d = nn.Conv2d(1, 2, 3), nn.ReLU()
            self.e = [nn.Conv2d(1, 2, 3)]
            self.g = [nn.Conv2d(1, 2, 3)]
            self.h = [nn.Conv2d(1, 2, 3)]
        def change(self, m):
            self.e.append(m)
            self.g.insert(0, m)
            self.h[0] = m
        @property
        def p(self):
            return self.c
        @p.setter
        def p(self, value): ...
        def forward(self, x):
            {body}
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for m in self.a: m(x)", CONV),
        ("self.a[0](x)", CONV),
        ("for m in self.b.values(): m(x)", CONV),
        ("self.b['y'](x)", CONV),
        ("self.c(x)", CONV),
        ("self.p(x)", CONV),
        ("self.e[0](x)", "?.__call__"),
        ("self.g[0](x)", "?.__call__"),
        ("self.h[0](x)", "?.__call__"),
        ("self.a.append(x)", "torch.nn.ModuleList().append"),
    ],
)
def test_what_a_container_on_the_instance_holds(body, expected):
    assert callee(CONTAINERS.format(body=body)) == expected


def test_a_partial_may_pass_more_than_the_call_shows():
    call = last_call("from functools import partial\nfrom torch import nn\nf = partial(nn.LayerNorm, eps=1)\nf(8)")
    assert (call.callee, call.splat, call.args["normalized_shape"]) == ("torch.nn.LayerNorm", True, 8)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch\ntorch.load(f)", "torch.load"),
        ("from torch import load as restore\nrestore(f)", "restore"),
        ("class A:\n  def f(self):\n    self.cache.add_(1)", "self.cache.add_"),
        ("x.half()", "x.half"),
        ("build(1).half()", "build().half"),
        ("x[0].a['b'].half()", "x[].a[].half"),
        ("build()(1)", "build()"),
        ("(a + b).half()", "?.half"),
        ("''.join(x)", "?.join"),
    ],
)
def test_a_call_keeps_how_it_is_written(text, expected):
    assert last_call(text).written == expected


def test_a_long_chain_of_calls_is_not_kept_whole():
    found = facts("x" + ".abcdefg()" * 100, Call)
    assert max(len(call.written) for call in found) < 400


def test_a_name_with_two_imports_is_referred_to_as_both():
    text = "try:\n    import a as m\nexcept ImportError:\n    import b as m\nm.x\nm.y = 1\nm.f(1)"
    found = [(fact.name, fact.store, fact.ambiguous) for fact in facts(text, Reference)]
    assert found == [
        ("a.x", None, True), ("b.x", None, True), ("a.y", "set", True), ("b.y", "set", True),
        ("a.f", None, True), ("b.f", None, True),
    ]  # fmt: skip


def test_one_order_for_all_meanings_of_a_reference():
    first, second = facts("import a, b\nm = a if x else b\nm.x", Reference)[-2:]
    assert (first.name, second.name) == ("a.x", "b.x")
    assert (first.order, first.at) == (second.order, second.at)


def test_a_class_names_its_known_ancestors():
    text = """
        from torch import nn
        from typing import Generic
        class A(nn.Module):
            def forward(self, x): ...
        class B(A, Generic[T]):
            class Inner: ...
    """
    found = {fact.name: (fact.bases, fact.methods) for fact in facts(text, ClassDef)}
    assert found == {
        "A": (("torch.nn.Module",), ("forward",)),
        "B": (("A", "typing.Generic", "torch.nn.Module"), ()),
        "B.Inner": ((), ()),
    }


def test_a_class_that_derives_from_itself_ends():
    assert [fact.bases for fact in facts("class A(A): ...", ClassDef)] == [("A",)]


def test_class_and_scope_share_an_id():
    text = "class A:\n    def f(self): ..."
    (definition,) = facts(text, ClassDef)
    scopes = {scope.id: scope for scope in facts(text, Scope)}
    assert (scopes[definition.scope].kind, scopes[definition.scope].name) == ("class", "A")


def test_scopes_nest_and_name_decorators():
    text = """
        import torch
        from functools import wraps
        @torch.no_grad()
        @wraps
        def f():
            def g(): ...
        class C:
            @staticmethod
            async def h(): ...
    """
    found = facts(text, Scope)
    names = {scope.id: scope.name for scope in found}
    assert [(s.kind, s.name, names.get(s.parent), s.decorators) for s in found] == [
        ("module", "", None, ()),
        ("function", "f", "", ("torch.no_grad", "functools.wraps")),
        ("function", "f.g", "f", ()),
        ("class", "C", "", ()),
        ("function", "C.h", "C", ("staticmethod",)),
    ]


def test_scopes_of_two_files_and_two_sides_never_meet():
    ids = {
        scope.id
        for path in ("a.py", "b.py")
        for side in ("source", "target")
        for scope in facts("def f(): ...", Scope, path=path, side=side)
    }
    assert len(ids) == 8
    assert max(ids) < 2**53


# arguments


def args(text):
    return dict(last_call(text).args)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("3", 3),
        ("-1", -1),
        ("True", True),
        ("None", None),
        ("'a'", "a"),
        ("1e-5", 1e-5),
        ("[1, (2, 3)]", (1, (2, 3))),
        ("{'x': {0: 'batch'}}", {"x": {0: "batch"}}),
        ("2 * 1024**3", 2147483648),
        ("1 << 20", 1048576),
        ("float('-inf')", -math.inf),
        ("dict(a=1)", {"a": 1}),
        ("N", 17),
        ("[N, 1]", (17, 1)),
        ("torch.float16", Name("torch.float16")),
        ("th.float16", Name("torch.float16")),
        ("x", Name("x")),
        ("x.y", Name("x.y")),
        ("x.shape[0]", Name("x.shape[]")),
        ("torch.arange(3)", Name("torch.arange()")),
        ("torch.randn(3)", Name("torch.randn()")),
        ("x.sum()", Name("x.sum()")),
        ("D['opset']", 16),
        ("D['none']", Unknown("an item")),
        ("f'{x}'", Unknown("an f-string")),
        ("a if b else c", Unknown("a conditional expression")),
        ("x + 1", Unknown("arithmetic")),
        ("9 ** 9 ** 9 ** 9", Unknown("arithmetic")),
        ("1 // 0", Unknown("arithmetic")),
        ("{x: 1}", Unknown("a dict with keys that are not constants")),
        ("[*x]", Unknown("an unpacked display")),
        ("...", Unknown("an expression")),
    ],
)
def test_the_value_of_an_argument(written, expected):
    text = f"import torch, torch as th\nN = 17\nD = {{'opset': 16}}\nf(g={written})"
    value = args(text)["g"]
    assert value == expected
    assert type(value) is type(expected)


def test_positional_arguments_stand_under_index_and_name():
    assert args("import torch\ntorch.load('a.pt', 'cpu')") == {0: "a.pt", 1: "cpu", "f": "a.pt", "map_location": "cpu"}


def test_a_keyword_stands_under_its_name_only():
    assert args("import torch\ntorch.load(f='a.pt')") == {"f": "a.pt"}


def test_the_receiver_is_an_argument():
    assert args("import torch\nmodel = torch.load(f)\nmodel.half()") == {"self": Name("model")}
    assert args("m.a.half()") == {"self": Name("m.a")}
    assert args("class A:\n    def f(self):\n        self.g(1)") == {0: 1, "self": Name("self")}
    assert args("f(1)") == {0: 1, "self": Name("f")}
    assert args("import torch\ntorch.load()") == {}


def test_tensor_methods_are_bound_whatever_the_receiver():
    assert args("x.index_put_((i,), v, True)")["accumulate"] is True


def test_what_is_unpacked_into_a_call_makes_a_missing_argument_unknown():
    assert last_call("f(*a, 2)").splat
    assert 0 not in args("f(*a, 2)")
    assert last_call("f(**a)").splat


def test_a_written_dict_can_be_unpacked():
    call = last_call("import torch\no = {'weights_only': True}\ntorch.load(f, **o)")
    assert (call.splat, call.args["weights_only"]) == (False, True)


@pytest.mark.parametrize("change", ["o['b'] = 1", "o.update(b=1)", "o |= p"])
def test_a_dict_that_changes_is_not_known(change):
    assert last_call(f"def g():\n    o = {{'a': True}}\n    {change}\n    f(**o)").splat
    assert last_call(f"o = {{'a': True}}\n{change}\nf(**o)").splat
    assert last_call(f"o = {{'a': True}}\n{change}\ndef g():\n    f(**o)").splat


def test_a_constant_assigned_twice_is_not_known_in_a_function():
    assert args("N = 1\nN = 2\ndef g():\n    f(N)")[0] == Name("N")
    assert args("N = 1\nN = 2\nf(N)")[0] == 2


def test_a_huge_literal_is_not_kept():
    assert args(f"f({list(range(2000))})")[0] == Unknown("a literal too large to keep")
    assert args(f"f('{'a' * 20_000}')")[0] == Unknown("a literal too large to keep")


def test_values_that_double_are_not_kept():
    """Sixty lines, and 2**60 items for whoever walks the value."""
    text = "a0 = (1, 1)\n" + "\n".join(f"a{n + 1} = (a{n}, a{n})" for n in range(60))
    assert args(f"{text}\nf(a5)")[0][0][0][0][0] == ((1, 1), (1, 1))
    assert len(repr(args(f"{text}\nf(a60)")[0])) < 100_000


def test_a_large_dict_is_not_spread_into_a_call():
    entries = ", ".join(f"'k{n}': 1" for n in range(60))
    assert last_call(f"d = {{{entries}}}\nf(**d)").splat


def test_assigned_names_the_target():
    found = facts("import a\nx = a.f()\nself.y = a.g()\nwith a.h() as z: ...\np, q = a.i(), a.j()\na.k()", Call)
    assert [(c.callee[2:], c.assigned) for c in found] == [
        ("f", "x"), ("g", "self.y"), ("h", "z"), ("i", "p"), ("j", "q"), ("k", None),
    ]  # fmt: skip


# blocks and order


def blocks(text):
    return [(b.kind, b.names, b.text) for b in last_call(text).blocks]


def test_blocks_stand_outermost_first():
    text = """
        import torch
        with torch.no_grad(), open(p) as f:
            for x in data:
                if x.ok and flag:
                    g()
    """
    assert blocks(text) == [
        ("with", ("torch.no_grad",), "torch.no_grad()"),
        ("with", ("open",), "open(p)"),
        ("loop", ("data",), "data"),
        ("if", ("x.ok", "flag"), "x.ok and flag"),
    ]


def test_the_else_of_an_if_says_so():
    text = (
        "class A:\n  def f(self):\n    if self.training:\n        a()\n    elif b:\n        c()\n    else:\n        g()"
    )
    assert blocks(text) == [("if", ("self.training", "b"), "not (self.training) and not (b)")]


def test_conditional_expressions_and_comprehensions_are_blocks():
    assert blocks("x = g() if a else 1") == [("if", ("a",), "a")]
    assert blocks("x = 1 if a else g()") == [("if", ("a",), "not (a)")]
    assert blocks("[g() for x in y if x.z]") == [("loop", ("y",), "y"), ("if", ("x.z",), "x.z")]


def test_asynchronous_statements_are_blocks_too():
    text = """
        async def f():
            async with a() as b:
                async for x in b:
                    while x:
                        await g()
    """
    assert [(kind, names) for kind, names, _ in blocks(text)] == [
        ("with", ("?.__call__",)),
        ("loop", ("b",)),
        ("loop", ("x",)),
    ]


def test_a_case_is_a_block():
    assert blocks("match x:\n    case [1, y] if y:\n        g()") == [("if", ("x",), "case [1, y]")]


def test_nested_functions_know_where_they_stand():
    found = {scope.id: scope for scope in facts("class A:\n  def f(self):\n    def g():\n      h()", Scope)}
    scope = found[last_call("class A:\n  def f(self):\n    def g():\n      h()").scope]
    names = []
    while scope is not None:
        names.append((scope.kind, scope.name))
        scope = found.get(scope.parent)
    assert names == [("function", "A.f.g"), ("function", "A.f"), ("class", "A"), ("module", "")]


def test_try_and_its_handlers_are_blocks():
    assert blocks("try:\n    g()\nfinally: ...") == [("try", (), "try")]
    assert blocks("try:\n    g()\nexcept E: ...") == [("try", ("E",), "try")]
    caught = "except (m.E, F, m.E): ...\nexcept w.G as e: ...\nexcept E[0]: ...\nexcept: ..."
    assert blocks(f"import a.b as m\nfrom c import F\ntry:\n    g()\n{caught}") == [
        ("try", ("a.b.E", "c.F", "w.G", "BaseException"), "try")
    ]
    assert blocks("try: ...\nexcept E:\n    g()") == [("try", ("E",), "except E")]


def test_a_function_body_leaves_the_blocks_behind():
    assert blocks("with a():\n    def f():\n        g()") == []
    assert [b[0] for b in blocks("with a():\n    class A:\n        x = g()")] == ["with"]


def test_order_is_that_of_evaluation():
    found = facts("import t\nt.export(m.eval(), t.rand(2))\nt.b(t.c().d())", Call)
    assert [call.callee for call in sorted(found, key=lambda call: call.order)] == [
        "?.eval", "t.rand", "t.export", "t.c", "t.c().d", "t.b",
    ]  # fmt: skip


# references and operations


def references(text):
    return [(ref.name, ref.store, ref.value) for ref in facts(text, Reference)]


def test_reads_of_dotted_names():
    text = (
        "import numpy as np\nclass A:\n  def f(self, x):\n    a = np.bool\n    b = self.w\n    c = x.shape\n    d = x"
    )
    assert references(text) == [("numpy.bool", None, None), ("self.w", None, None), ("?.shape", None, None)]


def test_writes():
    text = """
        import torch, onnx, onnxruntime as ort, os
        torch.backends.cuda.matmul.allow_tf32 = True
        o = ort.SessionOptions()
        o.graph_optimization_level = 99
        m = onnx.load(p)
        m.opset_import[0].version = 13
        def f(x, y):
            x[0] = 1
            x += 2
            y.data += 3
            y.data[0] = 4
            global n
            n += 1
        os.environ["A_B"] = "1"
    """
    assert [row for row in references(text) if row[1]] == [
        ("torch.backends.cuda.matmul.allow_tf32", "set", True),
        ("onnxruntime.SessionOptions().graph_optimization_level", "set", 99),
        ("onnx.load().opset_import[].version", "set", 13),
        ("x", "item", 1),
        ("x", "augment", 2),
        ("?.data", "augment", 3),
        ("?.data", "item", 4),
        ("n", "augment", 1),
        ("os.environ.A_B", "set", "1"),
    ]


def test_the_instance_is_written_under_its_own_name():
    text = NET.format(
        body="self.n += 1\n            self.conv.weight[0] = 1\n            self.n[0] = 2\n            self.k = x"
    )
    written = [(name, store) for name, store, _ in references(text) if store]
    assert written[-4:] == [("self.n", "augment"), ("self.conv.weight", "item"), ("self.n", "item"), ("self.k", "set")]


def test_an_attribute_of_one_of_several_is_not_known():
    text = "import a\ndef f(x):\n    if x:\n        x = a.B()\n    x.c\n    x.d = 1"
    assert [row[:2] for row in references(text)][-2:] == [("?.c", None), ("?.d", "set")]


def operations(text):
    return [(op.op, op.operands, op.calls, op.names) for op in facts(text, Operation)]


def test_operators():
    assert operations("x // 2") == [("//", (Name("x"), 2), (), ("x",))]
    assert operations("x >>= 1") == [(">>", (Name("x"), 1), (), ("x",))]
    assert [row[0] for row in operations("a < b is not c")] == ["<", "is not"]
    assert operations("'%s' % x") == []


def test_a_long_sum_is_no_deep_nesting():
    assert len(operations("x = " + " + ".join(["a"] * 900))) == 899


def test_tests_name_what_they_read_and_call():
    text = """
        import torch
        def f(x):
            if torch.any(x.sum() > 0): ...
            while x: ...
            assert x.ok
            for i in range(x.shape[0]): ...
    """
    found = {row[0]: row[2:] for row in operations(text)}
    assert found["if"] == (("?.sum", "torch.any"), ("x",))
    assert found["while"] == ((), ("x",))
    assert found["assert"] == ((), ("x.ok",))
    assert found["for"] == (("range",), ("x.shape",))


# places


def test_places_count_characters_from_one():
    (call,) = facts("é = 1\nx = 'é'; f(\n  1)", Call)
    assert (call.at.line, call.at.column, call.at.end_line, call.at.end_column) == (2, 10, 3, 5)
    assert call.at.path == "<text>"


# what cannot be read


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def f(:\n", "not valid Python (line 1)"),
        ("print 'hello'", "not valid Python (line 1)"),
        ("a\0b", "not valid Python"),
        ("-" * 100_000 + "1", "nested too deeply"),
        ("(" * 150 + ")" * 150 + "(" * 300, "not valid Python"),
        ("a" + ".b" * 100_000, "nested too deeply"),
        ("f" + "()" * 100_000, "nested too deeply"),
        ("x = " + "[" * 5000 + "]" * 5000, "n"),
        ("if a: ...\n" + "elif b: ...\n" * 50_000, "nested too deeply"),
        ("\n".join(" " * n + "for i in x:" for n in range(30)) + " f()", "nested too deeply"),
    ],
)
def test_a_text_that_cannot_be_read_is_skipped_with_its_reason(text, reason):
    read = read_python_text(text)
    assert read.facts == []
    assert read.skipped[0].reason.startswith(reason)


def test_loops_count_per_function():
    loops = "\n".join(" " * n + "for i in x:" for n in range(15))
    text = f"{loops}\n{' ' * 15}def f():\n" + "\n".join(" " * (16 + n) + "for i in x:" for n in range(15)) + " f()"
    assert not read_python_text(text).skipped


def test_nothing_is_left_for_the_garbage_collector():
    """Syntax trees must go at once: with cycles they would pile up while the collector is off."""
    text = dedent(NET.format(body="pass")) + "for i in x:\n    y = lambda a: [b for b in a]\n"
    gc.collect()
    gc.disable()
    try:
        read = read_python_text(text)
        count = gc.collect()
    finally:
        gc.enable()
    assert len(read.facts) > 20
    assert count == 0


def test_reading_twice_gives_the_same_facts():
    text = NET.format(body="self.conv(x)")
    assert read_python_text(dedent(text)).facts == read_python_text(dedent(text)).facts


def test_chains_within_the_limits_of_the_parser_are_read():
    text = "if a: ...\n" + "elif b: ...\n" * 400 + "x" + ".y" * 500 + "\nz" + " + 1" * 800
    assert not read_python_text(text).skipped


def test_invalid_escapes_warn_nobody():
    assert not read_python_text("x = '\\d'").skipped


# time

HOSTILE = {
    "one long line": lambda n: "; ".join(["x.f(1)"] * n),
    "a list on one line": lambda n: f"x = [{'1, ' * 20 * n}]",
    "one name assigned again and again": lambda n: "x = f()\n" * n,
    "one list filled again and again": lambda n: "x = []\n" + "x.append(f())\n" * n,
    "one attribute filled again and again": lambda n: (
        "class A:\n  def f(self):\n    self.x = []\n" + "    self.x.append(g())\n" * n
    ),
    "a chain of names": lambda n: "a0 = f()\n" + "".join(f"a{i + 1} = a{i}\n" for i in range(n)) + f"a{n}.x()",
    "a chain of constants": lambda n: "".join(f"a{i} = a{i + 1} + 1\n" for i in range(n)) + "def g():\n  f(a0)",
    "lists in lists": lambda n: "x = []\n" + "x = [x, f()]\n" * n,
    "functions that call each other": lambda n: (
        "".join(f"def f{i}():\n  if c: return f{(i + 1) % n}()\n  return f{i * 7 % n}()\n" for i in range(n))
        + "f0().x()"
    ),
    "a chain of classes": lambda n: "".join(f"class A{i}(A{i + 1}):\n  def f(self): self.g.h()\n" for i in range(n)),
    "a chain of methods": lambda n: (
        "class A:\n" + "".join(f"  def f{i}(self):\n    return self.f{i + 1}()\n" for i in range(n))
    ),
    "star imports": lambda n: "".join(f"from m{i} import *\n" for i in range(n)) + "f()\n" * n,
    "calls of a function with many decorators": lambda n: (
        "def d(f): return f\n" + "@d\n" * (n // 10) + "def g(a): return 1\n" + "g(1)\n" * n
    ),
}


def seconds(text):
    started = time.process_time()
    assert not read_python_text(text).skipped
    return time.process_time() - started


@pytest.mark.parametrize("name", HOSTILE)
def test_time_grows_with_the_source(name):
    """Four times the source takes four times as long; sixteen times would be quadratic."""
    make = HOSTILE[name]

    def is_linear():
        short = min(seconds(make(400)) for _ in range(3))
        return min(seconds(make(1600)) for _ in range(2)) < 9 * short + 0.05

    assert any(is_linear() for _ in range(4)), "not even once: that is no noise of the machine"


def test_the_longest_line_is_read():
    assert not read_python_text(f"x = [{'1, ' * 100_000}]\nf(x)").skipped


def test_a_star_import_of_itself_ends(tmp_path):
    from tensoraudit.extract.python_source import read_python

    (tmp_path / "a.py").write_text("from a import *\nf(1)\n")
    (found,) = [fact for fact in read_python([tmp_path], root=tmp_path).facts if isinstance(fact, Call)]
    assert found.callee == "?.__call__"


# what calls hand over


PASSING = """
import torch
from functools import partial
class Block:
    pass
class Net:
    def __init__(self, given):
        self.block = Block()
        self.stack = torch.nn.Sequential(torch.nn.Linear(1, 2), Block())
    def run(self, x): ...
    def forward(self, given, x):
        {}
def body(x): ...
"""


@pytest.mark.parametrize(
    ("code", "origins"),
    [
        ("f(body)", (("body",),)),
        ("f(self.run)", (("self.run",),)),
        ("f(self.block)", (("Block()",),)),
        ("f(self.stack)", (("torch.nn.Linear()",), ("Block()",))),
        ("f(partial(body, x))", (("body",),)),
        ("f(partial(body, y=x))", (("body",),)),
        ("g = partial(body, x)\n        f(g)", (("body",),)),
        ("g = self.run if x else body\n        f(g)", (("self.run", "body"),)),
        ("f(given)", None),
        ("f(3)", None),
        ("f(*body)", None),
    ],
)
def test_what_an_argument_hands_over(code, origins):
    call = next(call for call in facts(PASSING.replace("{}", code), Call) if call.written == "f")
    assert (call.passes or {}).get(0) == origins


def test_a_lambda_is_a_scope_that_an_argument_can_name():
    text = "def g(x):\n    f(lambda t: h(t), k=lambda: 1)\n"
    scopes = [(scope.kind, scope.name) for scope in facts(text, Scope)]
    assert scopes == [("module", ""), ("function", "g"), ("lambda", "g"), ("lambda", "g")]
    inner, outer = facts(text, Call)
    ids = [scope.id for scope in facts(text, Scope)]
    assert (inner.scope, outer.scope) == (ids[2], ids[1])
    assert outer.passes == {0: ((ids[2],),), "k": ((ids[3],),)}


def test_a_partial_with_positional_arguments_is_called_by_no_known_name():
    assert last_call("from functools import partial\ndef g(a, b): ...\nf = partial(g, 1)\nf(2)").callee != "g"
    assert last_call("from functools import partial\ndef g(a, b): ...\nf = partial(g, b=1)\nf(2)").callee == "g"


@pytest.mark.parametrize(
    ("decorator", "applied"),
    [
        ("@f.g", [("f.g", {0: Name("body")})]),
        ("@f.g(k=1)", [("f.g", {"k": 1})]),
        ("@partial(f.g, k=1)", [("f.g", {0: Name("body"), "k": 1})]),
        ("@partial(f.g, 7, k=1)", [("f.g", {0: 7, 1: Name("body"), "k": 1})]),
        ("@f.g\n@f.h", [("f.g", {0: Name("body")}), ("f.h", {0: Name("body")})]),
    ],
)
def test_the_calls_that_decorators_make(decorator, applied):
    text = f"import f\nfrom functools import partial\n{decorator}\ndef body(x): ...\n"
    scope = facts(text, Scope)[-1]
    assert [(call.callee, call.args) for call in scope.applied] == applied


def test_what_calls_are_a_part_of():
    text = "self.a = f(g(1), [h() for _ in x])\ny: T = f(2)\nself.b.append(g(3))\nf(4)\nwith f(5) as z: g(6)"
    found = {call.args[0]: call.part_of for call in facts(text, Call) if type(call.args.get(0)) is int}
    assert found == {1: "self.a", 2: "y", 3: "self.b", 4: None, 5: "z", 6: None}


def test_stars_are_told_apart():
    assert [(call.splat, call.double_splat) for call in facts("f(*a)\nf(**a)\nf(*a, **b)\nf(a)", Call)] == [
        (True, False), (True, True), (True, True), (False, False),
    ]  # fmt: skip


def test_a_call_whose_result_nobody_sees():
    text = "f(1)\nx = f(2)\ng(f(3))\nf(4).m()\nasync def h():\n    await f(5)\n    return f(6)\nf(7) if x else f(8)"
    found = {call.args[0]: call.dropped for call in facts(text, Call) if type(call.args.get(0)) is int}
    assert found == {1: True, 2: False, 3: False, 4: False, 5: True, 6: False, 7: False, 8: False}


def test_all_meanings_of_a_call_are_told():
    text = "import a, b\ntry:\n    s = a.S()\nexcept E:\n    s = b.S()\ns.step()"
    assert [call.meanings for call in facts(text, Call)[-2:]] == [("a.S().step", "b.S().step")] * 2
    assert last_call("import a\na.S()").meanings == ()


class TestTwoProcesses:
    """A large project is read by a copy of the process too: nothing that comes back may tell."""

    @pytest.fixture
    def project(self, tmp_path):
        files = {
            "pkg/__init__.py": "",
            "pkg/blocks.py": "from torch import nn\nclass Block(nn.Module):\n    def forward(self, x): return x\n",
            "pkg/deep.py": "\n".join(" " * n + "for i in x:" for n in range(30)) + " f()",
            "pkg/train.py": "from pkg.blocks import Block\ndef step(m: Block):\n    if m: m.half(1e999 - 1e999)\n",
            "pkg/zeros.py": "import torch\nx = torch.zeros(3, dtype=torch.half)[0]\nx += 1\n",
        }
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        return tmp_path

    def test_gives_what_one_gives(self, project, monkeypatch):
        alone = read_python([project], root=project)
        forked = []
        fork = os.fork
        monkeypatch.setattr(os, "fork", lambda: forked.append(1) or fork())
        monkeypatch.setattr(python_source, "_WORTH_A_COPY", 1)
        monkeypatch.setattr(halves, "two_processors", lambda: True)
        together = read_python([project], root=project)
        assert forked == [1]
        assert repr(together) == repr(alone)  # NaN is not equal to itself
        assert [skip.path for skip in together.skipped] == ["pkg/deep.py"]
        assert "torch.nn.Module().half" in [fact.callee for fact in together.facts if isinstance(fact, Call)]

    def test_a_small_project_is_read_by_one(self, project, monkeypatch):
        monkeypatch.setattr(halves, "two_processors", lambda: True)
        monkeypatch.setattr(os, "fork", None)
        assert read_python([project], root=project).files == 4
