"""What a file knows of the other files of its project, and what it must not believe."""

import time
from textwrap import dedent

import pytest

from tensoraudit.extract.python_source import read_python
from tensoraudit.facts import Call, ClassDef, Import, Name, Reference

PACKAGE = {
    "pkg/__init__.py": "from .models import *\nfrom .models.net import build as make\n",
    "pkg/models/__init__.py": "from .net import Net, build\nfrom . import layers\n__all__ = ['Net']\n",
    "pkg/models/net.py": """
        import torch
        from torch import nn
        from .layers import Base, Block
        class Net(Base):
            def __init__(self, width, depth=2):
                super().__init__()
                self.head = nn.Linear(width, 1)
                self.blocks = nn.ModuleList([Block() for _ in range(depth)])
                self.opt = None
            def helper(self):
                return self.head
            def chained(self):
                return self
            @classmethod
            def small(cls, width=3):
                return cls(width)
            @property
            def first(self):
                return self.head
        def build(width) -> "Net":
            return wrap(width)
        def wrap(width):
            return Net(width)
        def pair():
            return nn.Sequential(nn.ReLU()), torch.optim.Adam([])
    """,
    "pkg/models/layers.py": """
        from torch import nn
        class Base(nn.Module):
            def __init__(self):
                super().__init__()
                self.drop = nn.Dropout(0.1)
            def shared(self):
                return self.drop
            def copy_of(self):
                return self
        class Block(Base): ...
    """,
    "pkg/config.py": """
        OPSET = 11
        NAMES = ['a', 'b']
        NEXT = OPSET + 1
        PATH = 'x' + '.onnx'
        SET = 3
        TWICE = 1
        TWICE = 2
    """,
    "pkg/other.py": "from pkg import config\nconfig.SET = 4\n",
}


@pytest.fixture
def read(tmp_path):
    """Read a project of the package above and a main file of the given text; return the facts of the main file."""

    def read(text, files=PACKAGE, path="main.py"):
        for name, content in {**files, path: text}.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(dedent(content))
        found = read_python([tmp_path], root=tmp_path)
        assert not found.skipped
        return [fact for fact in found.facts if fact.at.path == path]

    return read


def last_call(facts):
    call = [fact for fact in facts if isinstance(fact, Call)][-1]
    assert not call.ambiguous
    return call


# names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from pkg.models.net import Net\nNet(1)", "pkg.models.net.Net"),
        ("from pkg.models import Net\nNet(1)", "pkg.models.net.Net"),
        ("from pkg import Net\nNet(1)", "pkg.models.net.Net"),
        ("import pkg\npkg.Net(1)", "pkg.models.net.Net"),
        ("import pkg as p\np.models.Net(1)", "pkg.models.net.Net"),
        ("import pkg.models.net\npkg.models.net.Net(1)", "pkg.models.net.Net"),
        ("from pkg import make\nmake(1)", "pkg.models.net.build"),
        ("from pkg import *\nNet(1)", "pkg.models.net.Net"),
        ("from pkg.models import *\nNet(1)", "pkg.models.net.Net"),
        ("from pkg.models import layers\nlayers.Block()", "pkg.models.layers.Block"),
        ("from pkg.models.net import nn\nnn.Linear(1, 2)", "torch.nn.Linear"),
        ("from pkg.models import nothing\nnothing(1)", "pkg.models.nothing"),
        ("from pkg.models.net import *\nbuild(1)", "pkg.models.net.build"),
    ],
)
def test_a_definition_has_the_name_of_the_module_that_defines_it(read, text, expected):
    assert last_call(read(text)).callee == expected


def test_a_star_import_gives_no_more_than_all_names(read):
    """`build` is no part of `pkg.models.__all__`, so that `from pkg import *` does not give it."""
    callees = [fact.callee for fact in read("from pkg import *\nbuild(1)") if isinstance(fact, Call)]
    assert callees == ["?.__call__"]


def test_a_name_that_is_imported_shows_as_where_it_is_defined(read):
    names = [fact.name for fact in read("from pkg import Net") if isinstance(fact, Reference)]
    assert names == ["pkg.models.net.Net"]


def test_two_definitions_of_one_name_are_both_meant(read):
    files = {"a.py": "try:\n    from torch.amp import autocast\nexcept ImportError:\n    from apex import autocast\n"}
    found = [
        (call.callee, call.ambiguous)
        for call in read("from a import autocast\nautocast()", files)
        if isinstance(call, Call)
    ]
    assert found == [("torch.amp.autocast", True), ("apex.autocast", True)]
    references = [
        (fact.name, fact.ambiguous) for fact in read("from a import autocast", files) if isinstance(fact, Reference)
    ]
    assert references == [("torch.amp.autocast", True), ("apex.autocast", True)]


def test_a_star_import_from_outside_is_not_sure(read):
    files = {"a.py": "from torch.nn.functional import *"}
    found = [
        (call.callee, call.ambiguous) for call in read("from a import relu\nrelu(1)", files) if isinstance(call, Call)
    ]
    assert found == [("torch.nn.functional.relu", True)]


@pytest.mark.parametrize(
    "files",
    [
        {"a.py": "from b import f", "b.py": "from a import f"},
        {"a.py": "from a import *", "b.py": ""},
        {"a.py": "from b import *", "b.py": "from a import *"},
        {"a.py": "from a import f\n", "b.py": ""},
        {"a.py": "from b import g\ndef h(): return g()\nf = h()", "b.py": "from a import h\ndef g(): return h()\n"},
        {"a.py": "from b import B\nclass f(B): ...", "b.py": "from a import f\nclass B(f): ...\n"},
    ],
)
def test_cycles_of_imports_end(read, files):
    assert last_call(read("from a import f\nf.x(1)", files)).callee.startswith(("a.", "b."))


def test_the_name_of_a_package_wins_over_the_file_of_the_same_name(read):
    files = {"p/__init__.py": "from .net import net", "p/net.py": "def net(): ..."}
    assert last_call(read("from p import net\nnet()", files)).callee == "p.net.net"


def test_a_script_imports_the_file_beside_it(read):
    files = {"scripts/model.py": "class Net: ...", "scripts/onnx.py": "def load(): ..."}
    assert last_call(read("from model import Net\nNet()", files, "scripts/train.py")).callee == "scripts.model.Net"
    assert last_call(read("import model\nmodel.Net()", files, "scripts/train.py")).callee == "scripts.model.Net"
    modules = [fact.module for fact in read("import model", files, "scripts/train.py") if isinstance(fact, Import)]
    assert modules == ["scripts.model"]


def test_a_well_known_library_is_not_the_file_beside_the_script(read):
    files = {"scripts/onnx.py": "def load(): ..."}
    assert last_call(read("import onnx\nonnx.load(p)", files, "scripts/train.py")).callee == "onnx.load"


def test_a_module_of_a_package_does_not_import_the_file_beside_it(read):
    files = {"p/__init__.py": "", "p/model.py": "class Net: ..."}
    assert last_call(read("from model import Net\nNet()", files, "p/train.py")).callee == "model.Net"


# values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pkg.Net(1).half()", "torch.nn.Module().half"),
        ("pkg.Net(1).head(x)", "torch.nn.Linear().__call__"),
        ("pkg.Net(1).drop(x)", "torch.nn.Dropout().__call__"),
        ("pkg.make(1).helper()", "pkg.models.net.Net().helper"),
        ("pkg.make(1).helper()(x)", "torch.nn.Linear().__call__"),
        ("pkg.make(1).chained().head(x)", "torch.nn.Linear().__call__"),
        ("pkg.Net.small().head(x)", "torch.nn.Linear().__call__"),
        ("pkg.Net(1).first(x)", "torch.nn.Linear().__call__"),
        ("pkg.Net(1).shared()(x)", "torch.nn.Dropout().__call__"),
        ("pkg.Net(1).copy_of().head(x)", "torch.nn.Linear().__call__"),
        ("pkg.Net(1).eval().head(x)", "torch.nn.Linear().__call__"),
        ("pkg.Net(1).blocks[0].drop(x)", "torch.nn.Dropout().__call__"),
        ("for b in pkg.Net(1).blocks:\n    b.half()", "torch.nn.Module().half"),
        ("m, o = pkg.models.net.pair()\no.step()", "torch.optim.Adam().step"),
        ("m, o = pkg.models.net.pair()\nm.half()", "torch.nn.Module().half"),
        ("from pkg.models import net as n\nn.pair()[1].step()", "torch.optim.Adam().step"),
        (
            "class A:\n    def __init__(self):\n        self.m = pkg.make(1)\n    def f(self):\n        self.m.head(x)",
            "torch.nn.Linear().__call__",
        ),
        ("class A(pkg.Net):\n    def f(self):\n        self.head(x)", "torch.nn.Linear().__call__"),
        ("class A(pkg.Net):\n    def f(self):\n        self.drop(x)", "torch.nn.Dropout().__call__"),
        ("class A(pkg.Net):\n    def f(self):\n        self.helper()(x)", "torch.nn.Linear().__call__"),
        ("class A(pkg.Net): ...\nA(1).half()", "torch.nn.Module().half"),
        ("class A(pkg.Net):\n    def head(self): ...\n    def f(self):\n        self.head(x)", "self.head"),
        ("def f(m: pkg.Net):\n    m.head(x)", "torch.nn.Linear().__call__"),
        ("def f(m: 'list[pkg.Net] | None'):\n    m[0].head(x)", "torch.nn.Linear().__call__"),
        ("pkg.Net(1).opt.step()", "pkg.models.net.Net().opt.step"),
        ("pkg.unknown(1).half()", "pkg.unknown().half"),
    ],
)  # fmt: skip
def test_what_comes_from_another_file_is_known(read, text, expected):
    assert last_call(read(f"import pkg\n{text}")).callee == expected


def test_bases_are_followed_across_files(read):
    (definition,) = [fact for fact in read("import pkg\nclass A(pkg.Net): ...") if isinstance(fact, ClassDef)]
    assert definition.bases == ("pkg.models.net.Net", "pkg.models.layers.Base", "torch.nn.Module")


def test_functions_that_call_each_other_across_files_end(read):
    files = {
        "a.py": "from b import g\ndef f(x):\n    return g(x)\n",
        "b.py": "from a import f\ndef g(x):\n    return f(x)\n",
    }
    assert last_call(read("from a import f\nf(1).half()", files)).callee in ("a.f().half", "b.g().half")


# arguments and constants


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pkg.Net(5, 6)", {0: 5, 1: 6, "width": 5, "depth": 6}),
        ("pkg.Net(5)", {0: 5, "width": 5}),
        ("pkg.make(5)", {0: 5, "width": 5}),
        ("pkg.Net.small(5)", {0: 5, "width": 5}),
        ("from pkg.models.net import Net\nclass A(Net): ...\nA(5)", {0: 5, "width": 5}),
        ("def f(a, /, b, *, c): ...\nf(1, 2, c=3)", {0: 1, 1: 2, "a": 1, "b": 2, "c": 3}),
        (
            "class A:\n    def f(self, a): ...\n    def g(self):\n        self.f(4)",
            {0: 4, "a": 4, "self": Name("self")},
        ),
        ("import dataclasses\n@dataclasses.dataclass\nclass A:\n    x: int\n    y: int = 2\nA(1)", {0: 1, "x": 1}),
        ("@unknown\ndef f(a): ...\nf(1)", {0: 1}),
        ("class A:\n    def f(self, a): ...\nA.f(o, 4)", {0: Name("o"), 1: 4}),
    ],
)
def test_positional_arguments_are_named_by_the_definition(read, text, expected):
    assert last_call(read(f"import pkg\n{text}")).args == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("config.OPSET", 11),
        ("OPSET", 11),
        ("config.NAMES", ("a", "b")),
        ("config.NEXT", 12),
        ("config.PATH", "x.onnx"),
        ("OPSET + 1", 12),
        ("LOCAL", 13),
        ("K.N", 14),
        ("config.SET", Name("pkg.config.SET")),
        ("config.TWICE", Name("pkg.config.TWICE")),
        ("K.M", Name("K.M")),
        ("E.A", Name("E.A")),
    ],
)
def test_constants_of_other_files(read, written, expected):
    text = f"""
        from enum import Enum
        from pkg import config
        from pkg.config import OPSET
        LOCAL = OPSET + 2
        class K:
            N = OPSET + 3
            M = 1
            M = 2
        class E(Enum):
            A = 1
        def run():
            f({written})
    """
    value = last_call(read(text)).args[0]
    prefix = "main." if isinstance(value, Name) and value.name.startswith("main.") else ""
    assert value == (Name(prefix + expected.name) if isinstance(expected, Name) else expected)


# limits


LINK = """
from m{next} import C{next}, f{next}, N
class C{here}(C{next}): ...
def f{here}():
    return f{next}()
"""
END = """
import torch
N = 1
class C{here}(torch.nn.Module): ...
def f{here}():
    return torch.optim.Adam()
"""


def chain(count):
    """Files that re-export one name from each to the next, a class that inherits through all of them, and functions
    that return what the next returns."""
    files = {f"m{here}.py": LINK.format(here=here, next=here + 1) for here in range(count)}
    return {**files, f"m{count}.py": END.format(here=count)}


def test_long_chains_end_without_an_error(read):
    facts = read("from m0 import N, C0, f0\nC0().half()\nf0().step()\ng(N)", chain(300))
    assert last_call(facts).callee == "?.__call__"


def seconds(tmp_path, count):
    folder = tmp_path / str(count)
    folder.mkdir()
    for name, text in chain(count).items():
        (folder / name).write_text(text)
    started = time.process_time()
    read_python([folder], root=folder)
    return time.process_time() - started


def test_time_grows_with_the_number_of_files(tmp_path):
    seconds(tmp_path, 50)
    short, long = seconds(tmp_path, 200), seconds(tmp_path, 800)
    assert long < 4 * short * 2.5 + 0.2
