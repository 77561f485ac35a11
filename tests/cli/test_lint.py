"""`lint` end to end: what cannot be read is said and never a pass; notebooks are shown by cell in every format."""

import json
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest

OK, FINDINGS, USER, CANNOT_TELL = 0, 1, 2, 3

RULE = """\
id: TST-001
title: torch.load is used
severity: high
layer: deployment
match: {call: torch.load}
message: "{callee} at line {line}."
why: Because.
remedy: Do not.
examples:
  - python: |
      import torch
      torch.load("a")   # flag
  - python: x = 1
"""
UNREADABLE = {
    "syntax.py": b"x = (\n",
    "encoding.py": b"# coding: klingon\n",
    "bytes.py": b"x = '\xff'\n",
    "old.ipynb": b'{"nbformat": 2, "cells": []}',
    "r.ipynb": b'{"nbformat": 4, "metadata": {"kernelspec": {"language": "R"}}, "cells": []}',
    "cells.ipynb": b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": "x = ("}]}',
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "audit").mkdir()
    (tmp_path / "audit/pack.yaml").write_text('name: test\nprefix: TST\nversion: "1.0"\nengine: ">=1,<2"\n')
    (tmp_path / "audit/rule.yaml").write_text(RULE)
    (tmp_path / "pyproject.toml").write_text('[tool.tensoraudit]\nrules = ["./audit"]\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_notebook(path, *sources):
    cells = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": source} for source in sources]
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}))


def report(cli, *arguments):
    code, out, _ = cli("lint", *arguments, "--report", "json")
    return code, json.loads(out)


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_named_file_that_cannot_be_read_is_not_a_pass(cli, project, name):
    (project / name).write_bytes(UNREADABLE[name])
    code, data = report(cli, name)
    assert (code, data["grade"], data["exit_code"]) == (CANNOT_TELL, {"onnx": "C?"}, CANNOT_TELL)
    (probe,) = data["probes"]
    assert (probe["name"], probe["status"], probe["required"]) == ("source.read", "failed", True)
    assert name in probe["reason"]
    code, out, _ = cli("lint", name)
    assert code == CANNOT_TELL
    assert "Cannot tell whether this is ready" in out
    assert f"not read: {name}" in out


def test_a_folder_of_which_nothing_can_be_read_is_not_a_pass(cli, project):
    (project / "src").mkdir()
    for name, data in UNREADABLE.items():
        (project / "src" / name).write_bytes(data)
    code, data = report(cli, "src")
    assert (code, data["grade"]) == (CANNOT_TELL, {"onnx": "C?"})
    assert data["probes"][0]["reason"].startswith("src/bytes.py: not valid utf-8 at byte 5 (5 more)")
    assert len(data["notes"]) == len(UNREADABLE)


def test_a_folder_whose_code_is_all_ignored_is_not_a_pass(cli, project):
    (project / "src/.hidden").mkdir(parents=True)
    (project / "src/.hidden/a.py").touch()
    code, data = report(cli, "src")
    assert (code, data["probes"][0]["reason"]) == (
        CANNOT_TELL,
        "src: no Python file in it that is not hidden or ignored",
    )


def test_a_file_in_a_folder_that_cannot_be_read_is_said_and_the_others_count(cli, project):
    (project / "good.py").touch()
    (project / "syntax.py").write_bytes(UNREADABLE["syntax.py"])
    code, data = report(cli, ".")
    assert (code, data["grade"]) == (OK, {"onnx": "A"})
    assert data["notes"] == ["not read: syntax.py: not valid Python (line 1): '(' was never closed"]
    _, out, _ = cli("lint", ".")
    assert "not read: syntax.py: not valid Python (line 1)" in out


def test_findings_gate_even_when_another_named_file_cannot_be_read(cli, project):
    (project / "a.py").write_text("import torch\ntorch.load('x')\n")
    (project / "syntax.py").write_bytes(UNREADABLE["syntax.py"])
    code, data = report(cli, "a.py", "syntax.py")
    assert (code, data["grade"]) == (FINDINGS, {"onnx": "D?"})


@pytest.mark.parametrize("name", ["nothing.py", "nothing.ipynb", "data.txt"])
def test_what_is_no_source_at_all_is_the_users_input(cli, project, name):
    (project / "data.txt").write_text("text")
    code, _, err = cli("lint", name)
    assert code == USER
    assert err.count("\n") == 1


def test_a_cell_is_shown_in_every_format(cli, project):
    write_notebook(project / "train.ipynb", "import torch", ["%%time\n", "x = 1\n", "y = torch.load('x')"])
    formats = ("console", "json", "sarif", "junit", "html", "markdown")
    reports = [part for name in formats for part in ("--report", f"{name}={name}.out")]
    code, _, _ = cli("lint", "train.ipynb", *reports)
    assert code == FINDINGS
    texts = {name: Path(f"{name}.out").read_text() for name in formats}
    assert [name for name in formats if "train.ipynb:cell 2:3" not in texts[name]] == ["json"]
    where = json.loads(texts["json"])["findings"][0]["where"]
    assert where == {
        "path": "train.ipynb", "line": 3, "node": None, "tensor": None, "variable": None, "cell": 2
    }  # fmt: skip
    (location,) = json.loads(texts["sarif"])["runs"][0]["results"][0]["locations"]
    assert location == {
        "physicalLocation": {"artifactLocation": {"uri": "train.ipynb", "uriBaseId": "%SRCROOT%"}},
        "logicalLocations": [{"name": "cell 2", "fullyQualifiedName": "train.ipynb:cell 2:3", "kind": "cell"}],
    }
    assert ElementTree.fromstring(texts["junit"]).find(".//testcase").get("name").endswith("[train.ipynb:cell 2:3]")


def test_a_place_in_a_file_has_no_cell(cli, project):
    (project / "a.py").write_text("import torch\ntorch.load('x')\n")
    _, data = report(cli, "a.py")
    assert "cell" not in data["findings"][0]["where"]


def test_a_comment_in_a_cell_silences_its_own_statement_only(cli, project):
    call = "torch.load(\n    'x',\n)"
    write_notebook(
        project / "train.ipynb",
        "import torch",
        f"!pip list\n{call}  # tensoraudit: ignore[TST-001] made by us",
        f"%cd x\n{call}",
        "# tensoraudit: ignore[TST-001] too much",
    )
    _, data = report(cli, "train.ipynb")
    assert [(each["rule"], each["where"]["cell"], each["where"]["line"]) for each in data["findings"]] == [
        ("TST-001", 3, 2),
        ("SUP-003", 4, 1),
    ]
    (silenced,) = data["suppressed"]
    assert (silenced["reason"], silenced["finding"]["where"]["cell"]) == ("made by us", 2)


def test_a_comment_for_the_whole_notebook(cli, project):
    write_notebook(
        project / "train.ipynb",
        "import torch\ntorch.load('x')",
        "torch.load('y')  # tensoraudit: file-ignore[TST-001] an example",
    )
    _, data = report(cli, "train.ipynb")
    assert (len(data["findings"]), len(data["suppressed"])) == (0, 2)


def test_a_comment_in_a_file_of_another_encoding(cli, project):
    text = "# coding: latin-1\nimport torch\ntorch.load('\xe9')  # tensoraudit: ignore[TST-001] \xe9prouv\xe9\n"
    (project / "a.py").write_bytes(text.encode("latin-1"))
    _, data = report(cli, "a.py")
    assert (len(data["findings"]), data["suppressed"][0]["reason"]) == (0, "\xe9prouv\xe9")


def test_fingerprints_of_a_notebook_survive_new_cells_and_lines(cli, project):
    path = project / "train.ipynb"
    write_notebook(path, "import torch", "torch.load('x')", "torch.load('y')\ntorch.load('y')")
    _, before = report(cli, path.name)
    write_notebook(path, "import torch", "print(1)", "\n\ntorch.load('x')", "torch.load('y')", "torch.load('y')")
    _, after = report(cli, path.name)
    marks = [[each["fingerprint"] for each in data["findings"]] for data in (before, after)]
    assert len(set(marks[0])) == 3
    assert marks[0] == marks[1]


def test_two_cells_with_one_line_are_two_findings(cli, project):
    write_notebook(project / "train.ipynb", "import torch", "torch.load('x')", "torch.load('x')")
    _, data = report(cli, "train.ipynb")
    assert [each["where"]["cell"] for each in data["findings"]] == [2, 3]


def test_the_report_is_the_same_from_the_cache_and_without(cli, project):
    write_notebook(project / "train.ipynb", "import torch", "torch.load('x')")
    (project / "syntax.py").write_bytes(UNREADABLE["syntax.py"])
    outputs = {cli("lint", ".", *more)[:2] for more in ([], [], ["--no-cache"])}
    assert len(outputs) == 1


def test_a_name_that_is_not_utf8_is_a_place_like_any_other(cli, project):
    os.makedirs(b"code")
    try:
        Path(os.fsdecode(b"code/b\xff.py")).write_text("import torch\ntorch.load(1)\n")
    except OSError:
        pytest.skip("this file system takes UTF-8 alone")
    code, out, err = cli("lint", "code")
    assert (code, err) == (1, "")
    assert "code/b\ufffd.py:2" in out
    assert cli("lint", "code", "--report", "json")[0] == 1


def test_a_loop_of_links_is_one_sentence(cli, project):
    Path("loop.py").symlink_to("loop.py")
    code, _, err = cli("lint", "loop.py")
    assert code == 2
    assert err.startswith("tensoraudit: loop.py: cannot be read") and err.count("\n") == 1


def test_an_empty_module_is_source(cli, project):
    Path("__init__.py").touch()
    code, _, err = cli("lint", "__init__.py")
    assert (code, err) == (0, "")


@pytest.mark.parametrize("entry", ["5", '{rule = "TST-001", reason = "r", until = 2099-01-31T00:00:00}'])
def test_an_entry_that_nobody_has_looked_at_yet(cli, project, entry):
    config = project / "pyproject.toml"
    config.write_text(f"{config.read_text()}ignore = [{entry}]\n")
    Path("a.py").write_text("import torch\ntorch.load(1)\n")
    code, _, err = cli("lint", "a.py")
    assert (code, err.partition(". ")[0]) in [
        (0, ""),
        (2, "tensoraudit: tool.tensoraudit.ignore[0]: an entry must be a table"),
    ]
    assert (code == 0) is ("until" in entry)
