"""Whatever the program: the result parses, only the edited calls differ in it, and a second time changes nothing."""

import ast

from hypothesis import given, settings
from hypothesis import strategies as st

from tensoraudit.extract.python_source import read_python_text
from tensoraudit.facts import Call
from tensoraudit.fixes.apply import apply
from tensoraudit.fixes.verbs import Done, Dotted, Edit, Parameter, Place, RemoveArgument, RenameCall, SetArgument

SPACE = st.sampled_from(["", " ", "\n        ", "  # why\n        ", "\n        # why\n        ", "\t"])
ATOMS = st.sampled_from(["a", "1", "'é'", "[1, 2]", "lambda: 0", "(yield_)", "g(2)", "{**d}", "f'{a}'"])
HEADS = {"import lib": "lib.f", "import lib as é": "é.f", "from lib import f": "f", "from lib import f as ff": "ff"}


@st.composite
def calls(draw, head, inner):
    given = draw(st.lists(inner, max_size=3))
    keywords = draw(
        st.lists(st.sampled_from(["n=0", "n = 1", "m=a", "n=a", "k='x'"]), max_size=2, unique_by=lambda k: k[0])
    )
    tail = draw(st.sampled_from([[], [], ["*s"], ["**d"]]))
    parts = [*given, *tail, *keywords] if tail != ["**d"] else [*given, *keywords, *tail]
    text = ",".join(f"{draw(SPACE)}{part}{draw(SPACE)}" for part in parts)
    comma = draw(st.sampled_from(["", ","])) if parts else ""
    return f"{head}({text}{comma}{draw(SPACE)})"


@st.composite
def programs(draw):
    line = draw(st.sampled_from(sorted(HEADS)))
    expression = st.recursive(ATOMS, lambda inner: calls(HEADS[line], inner), max_leaves=5)
    shapes = st.sampled_from(["x = {}\n", "{}; y = 1  # end\n", "def h(a):\n    return {}\n\n", "if {}:\n    pass\n"])
    body = draw(st.lists(st.tuples(shapes, expression), min_size=1, max_size=3))
    text = f"{line}\n" + "".join(shape.format(expr) for shape, expr in body)
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


VERBS = st.sampled_from(
    [
        SetArgument(((Parameter("n"), 1),)),
        SetArgument(((Parameter("n"), 1), (Parameter("k"), {"a": [None]}))),
        SetArgument(((Parameter("n"), Dotted("lib.kinds.Type.FULL")),)),
        RemoveArgument((Parameter("n"),)),
        RemoveArgument((Parameter("n"), Parameter("k"))),
        RenameCall(Dotted("lib.g")),
        RenameCall(Dotted("lib.new.f")),
    ]
)


def edits_of(text, verb):
    read = read_python_text(text.replace("\r\n", "\n"))
    assert not read.skipped, read.skipped
    return [
        Edit(verb, Place(c.at.line, c.at.column, c.at.end_line, c.at.end_column), c.callee, c.written)
        for c in read.facts
        if isinstance(c, Call) and c.callee == "lib.f"
    ]


class Blank(ast.NodeTransformer):
    """Takes away what an edit may change: function and keywords of the calls of interest, and imports."""

    names = ("lib", "é", "f", "ff", "g", "new", "Type")

    def visit_Call(self, node):
        self.generic_visit(node)
        root = node.func
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and root.id in self.names and ast.unparse(node.func) != "g":
            node.keywords = [each for each in node.keywords if each.arg not in {"n", "k"}]
            node.func = ast.Name("called")
        if ast.unparse(node.func) == "g" and [ast.unparse(each) for each in node.args] != ["2"]:
            node.keywords = [each for each in node.keywords if each.arg not in {"n", "k"}]
            node.func = ast.Name("called")
        return node

    def visit_Import(self, node):
        return None

    visit_ImportFrom = visit_Import


def rest_of(text):
    return ast.dump(Blank().visit(ast.parse(text)))


@settings(max_examples=60)
@given(programs(), VERBS, st.booleans())
def test_only_the_edited_calls_change_and_only_once(text, verb, unsafe):
    edits = edits_of(text, verb)
    applied = apply(text, edits, unsafe=unsafe)
    assert rest_of(applied.text) == rest_of(text)
    if not isinstance(verb, RemoveArgument):  # the comment beside a removed argument goes with it
        assert applied.text.count("# why") == text.count("# why")
    assert applied.text.count("\n") == applied.text.count("\r\n") or "\r\n" not in text
    if all(not isinstance(outcome, Done) for outcome in applied.outcomes):
        assert applied.text == text
    again = apply(applied.text, edits_of(applied.text, verb), unsafe=unsafe)
    assert again.text == applied.text


@settings(max_examples=40)
@given(programs(), VERBS)
def test_places_are_those_of_the_calls(text, verb):
    edits = edits_of(text, verb)
    applied = apply(text, edits, unsafe=True)
    lines = applied.text.replace("\r\n", "\n").split("\n")
    for outcome in applied.outcomes:
        for place in outcome.places if isinstance(outcome, Done) else ():
            first, last = place.line - 1, place.end_line - 1
            inside = [*lines[first:last], lines[last][: place.end_column - 1]]
            inside[0] = inside[0][place.column - 1 :]
            assert isinstance(ast.parse("(" + "\n".join(inside) + "\n)", mode="eval").body, ast.Call)
