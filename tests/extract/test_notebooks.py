"""Notebooks: which cells are read, where their facts are shown, and what becomes of files that are no notebooks."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensoraudit.extract import notebooks
from tensoraudit.extract.notebooks import notebook_from
from tensoraudit.extract.python_files import Skipped, UnreadableFile
from tensoraudit.extract.python_source import read_python
from tensoraudit.facts import Call, Import, Scope, Site

TRAIN = Path(__file__).parent.parent.parent / "fixtures/notebooks/train.ipynb"


def notebook(*sources, kind="code", **more):
    cells = [{"cell_type": kind, "metadata": {}, "outputs": [], "source": source} for source in sources]
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells, **more}


def texts(document):
    return [(cell.number, cell.text) for cell in notebook_from(json.dumps(document).encode()).cells]


def refusal(data):
    with pytest.raises(UnreadableFile) as raised:
        notebook_from(data if isinstance(data, bytes) else json.dumps(data).encode())
    return str(raised.value)


def test_a_notebook_as_jupyter_writes_it():
    read = read_python([TRAIN.parent], root=TRAIN.parent)
    places = {fact.callee: fact.at for fact in read.facts if isinstance(fact, Call) and fact.callee != "?.__call__"}
    assert places == {
        "torch.load": Site("train.ipynb", 2, 9, 2, 26, cell=3),
        "torch.nn.Linear": Site("train.ipynb", 3, 7, 3, 22, cell=3),
        "torch.nn.Module().half": Site("train.ipynb", 9, 5, 9, 15, cell=3),
        "torch.save": Site("train.ipynb", 3, 7, 3, 30, cell=7),
    }
    assert {(fact.module, fact.at.cell, fact.at.line) for fact in read.facts if isinstance(fact, Import)} == {
        ("torch", 2, 4),
        ("torch", 2, 5),
    }
    (skipped,) = read.skipped
    assert (skipped.path, skipped.cell, skipped.line) == ("train.ipynb", 4, 2)
    assert str(skipped).startswith("train.ipynb:cell 4:2: not valid Python: ")


def test_all_cells_are_one_module_with_one_order(tmp_path):
    path = tmp_path / "my work.ipynb"
    path.write_text(json.dumps(notebook("import torch\nf = torch.load", "x = f('a')\n", ["y = f('b')\n", "z = 1"])))
    read = read_python([path], root=tmp_path)
    calls = [fact for fact in read.facts if isinstance(fact, Call)]
    (module,) = [fact for fact in read.facts if isinstance(fact, Scope)]
    assert [(call.callee, call.at.cell, call.at.line) for call in calls] == [("torch.load", 2, 1), ("torch.load", 3, 1)]
    assert {call.scope for call in calls} == {module.id}
    assert calls[0].order < calls[1].order
    assert module.module == "my work.ipynb"
    assert (read.files, read.paths) == (1, (path,))


def test_nbformat_3(tmp_path):
    cells = [
        {"cell_type": "heading", "source": "x"},
        {"cell_type": "code", "language": "python", "input": ["a = 1\n", "b = 2"], "outputs": []},
        {"cell_type": "code", "language": "ruby", "input": "puts 1"},
    ]
    more = {"cells": [{"cell_type": "code", "input": "c = 3"}]}
    document = {"nbformat": 3, "metadata": {"name": ""}, "worksheets": [{"cells": cells}, more]}
    assert texts(document) == [(2, "a = 1\nb = 2"), (4, "c = 3")]


def test_cells_of_other_kinds_count_but_are_not_read():
    document = notebook("x = 1", "y = 2")
    document["cells"].insert(0, {"cell_type": "markdown", "source": "# not code"})
    document["cells"].append({"cell_type": "raw", "source": "nor this"})
    assert texts(document) == [(2, "x = 1"), (3, "y = 2")]


def test_a_faulty_cell_leaves_the_others_alone():
    document = notebook("x = 1", "y = (", "%%mystery\nz", "a = '\0'", 5, "w = await f()")
    read = notebook_from(json.dumps(document).encode())
    assert [cell.number for cell in read.cells] == [1, 6]
    assert [(fault.number, fault.line) for fault in read.faults] == [(2, 1), (3, None), (4, None), (5, None)]
    assert "never closed" in read.faults[0].reason
    assert read.starts == ((1, 1), (2, 6))
    assert read.text == "x = 1\nw = await f()"


def test_when_no_cell_can_be_read_the_file_cannot():
    assert refusal(notebook("x = (", "y = (")).startswith(
        "none of its code cells can be read; cell 1, line 1: not valid"
    )


@pytest.mark.parametrize(
    ("metadata", "language"),
    [
        ({"kernelspec": {"language": "R", "name": "ir"}}, "R"),
        ({"language_info": {"name": "julia"}, "kernelspec": {"language": "python"}}, "julia"),
    ],
)
def test_other_languages_are_said_and_not_read(metadata, language):
    assert refusal(notebook("x <- 1", metadata=metadata)) == f"its language is {language}, not Python"


@pytest.mark.parametrize(
    "metadata", [{}, {"language_info": {"name": "ipython3"}}, {"kernelspec": {"language": 3}}, None, []]
)
def test_without_a_stated_language_it_is_python(metadata):
    assert texts(notebook("x = 1", metadata=metadata)) == [(1, "x = 1")]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "its JSON is broken"),
        (b'{"cells": [', "its JSON is broken"),
        (b"version https://git-lfs.github.com/spec/v1\n", "its JSON is broken"),
        (b"[]", "its JSON is not an object"),
        (b"{}", "it has no nbformat"),
        (b'{"nbformat": 2}', "its nbformat is 2, not 3 or 4"),
        (b'{"nbformat": "4"}', "its nbformat is '4', not 3 or 4"),
        (b'{"nbformat": 4}', "its cells are not a list"),
        (b'{"nbformat": 3, "worksheets": {}}', "its worksheets are not a list"),
        (b'{"nbformat": 4, "cells": [], "cells": []}', "the key 'cells' stands twice"),
        (b'{"nbformat": 4, "cells": ["\xff"]}', "not valid utf-8 at byte 27"),
        (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
        (b'{"nbformat": ' + b"9" * 10_000 + b"}", "its JSON is broken"),
        (b"[" + b"[]," * 4_000_000 + b"[]]", "more values"),
    ],
)
def test_files_that_are_no_notebooks(data, reason):
    assert reason in refusal(data)


def test_strange_cells_are_no_reason_to_fail():
    document = notebook("x = 1")
    document["cells"] += [None, 3, [], {}, {"cell_type": ["code"]}, {"cell_type": "code"}]
    assert texts(document) == [(1, "x = 1")]


def test_a_byte_order_mark_and_any_line_ends():
    data = b"\xef\xbb\xbf" + json.dumps(notebook("x = 1\r\ny = 2\rz = 3")).encode()
    assert notebook_from(data).cells[0].text == "x = 1\ny = 2\nz = 3"


def test_half_a_surrogate_is_a_fault_of_its_cell():
    read = notebook_from(json.dumps(notebook("x = 1", "y = '\ud800'")).encode())
    assert [fault.number for fault in read.faults] == [2]


def test_large_outputs_do_not_matter(tmp_path):
    document = notebook("import torch\ntorch.load('a')")
    document["cells"][0]["outputs"] = [{"data": {"image/png": "A" * (50 << 20)}}]
    path = tmp_path / "images.ipynb"
    path.write_text(json.dumps(document))
    read = read_python([path])
    assert [fact.callee for fact in read.facts if isinstance(fact, Call)] == ["torch.load"]


def test_what_is_too_large_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(notebooks, "LARGEST_NOTEBOOK", 1000)
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps(notebook("x = 1")) + " " * 1000)
    assert read_python([path], root=tmp_path).skipped == [
        Skipped("a.ipynb", "larger than 0 MB: clear its outputs")
    ]  # fmt: skip
    assert "more than 1 MB" in refusal(notebook("x = '" + "a" * (1 << 20) + "'"))


def test_names_of_two_notebooks_and_a_module_do_not_meet(tmp_path):
    for name in ("a.ipynb", "b.ipynb"):
        (tmp_path / name).write_text(json.dumps(notebook("def f():\n    pass\nf()")))
    (tmp_path / "a.py").write_text("def f():\n    pass\nf()")
    read = read_python([tmp_path], root=tmp_path)
    assert {fact.callee for fact in read.facts if isinstance(fact, Call)} == {"a.ipynb.f", "b.ipynb.f", "a.f"}


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(["code", "!ls", "%%time\nx", "x = ("]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["cells", "cell_type", "source", "input", "language", "worksheets", "metadata", "kernelspec"]
            ),
            inner,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=200)
@given(_VALUES, _VALUES, _VALUES, st.sampled_from([3, 4]))
def test_whatever_the_json_holds_the_answer_is_a_notebook_or_a_reason(cells, sheets, metadata, version):
    document = {"nbformat": version, "cells": cells, "worksheets": sheets, "metadata": metadata}
    try:
        read = notebook_from(json.dumps(document).encode())
    except UnreadableFile as reason:
        assert str(reason)
    else:
        assert read.text.count("\n") + 1 >= len(read.cells)


def test_a_cell_that_may_be_code_is_not_passed_over():
    document = notebook("x = 1")
    document["cells"] += [{"source": "y = 2"}, 5, {"cell_type": "Code", "source": "z = 3"}]
    read = notebook_from(json.dumps(document).encode())
    assert [fault.number for fault in read.faults] == [2, 3, 4]
    assert str(read.faults[2]) == "cell 4: its cell_type is 'Code', which is not known"
