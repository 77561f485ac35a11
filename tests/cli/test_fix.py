"""`fix` end to end: files are rewritten exactly and whole, what is not mended is said, a second run does nothing."""

import json
import os
import stat
import subprocess
import sys

import pytest

from tensoraudit.cli.app import run

OK, FINDINGS, USER, CANNOT_TELL = 0, 1, 2, 3

RULES = {
    "TST-001": """
match: {call: lib.f, args: {n: {not: {is: 1, literal: true}}}}
fix: {set-argument: {n: 1}, safety: safe}
examples:
  - python: |
      import lib
      lib.f()   # flag
    fixed: |
      import lib
      lib.f(n=1)
  - python: "pass"
""",
    "TST-002": """
match: {call: lib.old, not: {exists: {call: lib.reset, in: module}}}
fix: {rename-call: lib.new, safety: unsafe}
examples:
  - python: |
      import lib
      lib.old()   # flag
    fixed: |
      import lib
      lib.new()
  - python: "pass"
  - python: |
      import lib
      lib.reset()
      lib.old()
""",
    "TST-003": """
match: {call: lib.words}
fix: Ask somebody.
examples:
  - python: |
      import lib
      lib.words()   # flag
  - python: "pass"
""",
    "TST-004": """
match: {call: lib.stays, absent: {call: lib.off, in: module}}
fix: {set-argument: {off: true}, safety: safe}
examples:
  - python: |
      import lib
      lib.stays()   # flag
  - python: |
      import lib
      lib.off()
      lib.stays()
""",
}
HEAD = "id: {id}\ntitle: A rule\nseverity: high\nlayer: graph\nmessage: A message.\nwhy: Because.\nremedy: Change it.\n"


@pytest.fixture
def project(tmp_path, monkeypatch):
    folder = tmp_path / "audit"
    folder.mkdir()
    (folder / "pack.yaml").write_text('name: test\nprefix: TST\nversion: "1.0"\nengine: ">=1,<2"\n')
    for name, text in RULES.items():
        # The rule whose fix mends nothing has an example of a fix that would: rules are not run when they are loaded.
        lie = "    fixed: |\n      import lib\n"
        body = text.replace("lib.stays()   # flag\n", f"lib.stays()   # flag\n{lie}")
        (folder / f"{name}.yaml").write_text(HEAD.format(id=name) + body.lstrip())
    (tmp_path / "pyproject.toml").write_text('[tool.tensoraudit]\nrules = ["./audit"]\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_file_is_mended_and_a_second_run_does_nothing(cli, project):
    path = write(project / "a.py", "import lib\nlib.f(\n    2,  # two\n    n=0,\n)\n")
    code, out, err = cli("fix", "a.py")
    assert path.read_text() == "import lib\nlib.f(\n    2,  # two\n    n=1,\n)\n"
    assert out.splitlines() == ["a.py", "  2  TST-001  set n=1", "1 finding mended in 1 file, 0 left"]
    assert (code, err) == (OK, "")
    before = path.stat()
    code, out, _ = cli("fix", "a.py")
    assert (code, out) == (OK, "0 findings mended in 0 files, 0 left\n")
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert path.stat().st_ino == before.st_ino


def test_the_exit_code_is_that_of_lint_on_the_result(cli, project):
    write(project / "a.py", "import lib\nlib.f()\nlib.words()\n")
    code, out, _ = cli("fix", "a.py")
    assert code == FINDINGS == cli("lint", "a.py")[0]
    assert "  a.py:3  TST-003  no mechanical fix" in out
    assert cli("fix", "a.py", "--fail-on", "critical")[0] == OK


def test_unsafe_fixes_are_made_on_request(cli, project):
    path = write(project / "a.py", "import lib\nlib.old()\nlib.f(n=g())\n")
    code, out, _ = cli("fix", "a.py")
    assert code == FINDINGS
    assert path.read_text() == "import lib\nlib.old()\nlib.f(n=g())\n"
    assert "a.py:2  TST-002  its fix may change what the code means; --unsafe makes the change" in out
    assert "a.py:3  TST-001  n is not a constant here; --unsafe makes the change" in out
    assert out.endswith("0 findings mended in 0 files, 2 left (2 with --unsafe)\n")
    code, out, _ = cli("fix", "a.py", "--unsafe")
    assert (code, path.read_text()) == (OK, "import lib\nlib.new()\nlib.f(n=1)\n")


def test_a_name_that_may_be_something_else_is_left_alone(cli, project):
    text = "import lib\nif x:\n    from lib import f\nelse:\n    from other import f\nf()\n"
    path = write(project / "a.py", text)
    _, out, _ = cli("fix", "a.py")
    assert path.read_text() == text
    assert "the name may stand for something else here; --unsafe makes the change" in out


def test_a_fix_after_which_the_rule_still_holds_is_taken_back(cli, project):
    path = write(project / "a.py", "import lib\nlib.stays(); lib.f()\nlib.stays(off=True)\n")
    code, out, _ = cli("fix", "a.py")
    assert path.read_text() == "import lib\nlib.stays(); lib.f(n=1)\nlib.stays(off=True)\n"
    assert code == FINDINGS
    assert out.count("not mended: the rule still holds after its fix, which was taken back") == 2


def test_splats_are_not_guessed_at(cli, project):
    text = "import lib\nlib.f(**options)\n"
    path = write(project / "a.py", text)
    _, out, _ = cli("fix", "a.py", "--unsafe")
    assert path.read_text() == text
    assert "  a.py:2  TST-001  `**` may pass n too" in out


def test_two_findings_on_one_line_and_two_rules_in_one_call(cli, project):
    path = write(project / "a.py", "import lib\nlib.f(lib.f(lib.old(), n=2)); lib.f()\n")
    _, out, _ = cli("fix", "a.py", "--unsafe")
    assert path.read_text() == "import lib\nlib.f(lib.f(lib.new(), n=1), n=1); lib.f(n=1)\n"
    assert "4 findings mended in 1 file" in out


def test_a_diff_changes_nothing_and_can_be_applied(cli, project):
    text = "import lib\n\nlib.f()\nx = 1\nlib.words()"
    path = write(project / "a.py", text)
    code, out, err = cli("fix", "a.py", "--diff")
    assert path.read_text() == text
    assert out == (
        "--- a.py\n+++ a.py\n@@ -1,5 +1,5 @@\n import lib\n \n-lib.f()\n+lib.f(n=1)\n x = 1\n lib.words()\n"
        "\\ No newline at end of file\n"
    )
    assert code == FINDINGS
    assert "1 finding would be mended in 1 file, 1 left" in err
    assert cli("fix", "a.py", "--diff", "--fail-on", "never")[1] == out
    done = subprocess.run(["patch", "-p0"], input=out, text=True, capture_output=True, check=True)
    assert path.read_text() == "import lib\n\nlib.f(n=1)\nx = 1\nlib.words()", done.stdout


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"import lib\r\nlib.f(\r\n\ta,\r\n)\r\n", b"import lib\r\nlib.f(\r\n\ta,\r\n\tn=1,\r\n)\r\n"),
        (b"import lib\r\nlib.f()\nx = 1\r\n", b"import lib\r\nlib.f(n=1)\nx = 1\r\n"),
        (b"\xef\xbb\xbfimport lib\nlib.f()", b"\xef\xbb\xbfimport lib\nlib.f(n=1)"),
        ("# coding: latin-1\nimport lib\nx = 'é'; lib.f()\n".encode("latin-1"),
         "# coding: latin-1\nimport lib\nx = 'é'; lib.f(n=1)\n".encode("latin-1")),
        ("import lib\nx = 'é𝔘'; lib.f()\n".encode(), "import lib\nx = 'é𝔘'; lib.f(n=1)\n".encode()),
        (b"import lib\n\x0c\nlib.f()  \n\n\n", b"import lib\n\x0c\nlib.f(n=1)  \n\n\n"),
        (b"import lib\n@lib.f(n=2)\nclass A:\n\tpass\n", b"import lib\n@lib.f(n=1)\nclass A:\n\tpass\n"),
    ],
)  # fmt: skip
def test_bytes_that_are_not_edited_stay(cli, project, before, after):
    path = write(project / "a.py", before)
    cli("fix", "a.py")
    assert path.read_bytes() == after


def test_a_file_whose_line_ends_cannot_be_kept_is_left_alone(cli, project):
    path = write(project / "a.py", b"import lib\rlib.f()\r")
    _, out, _ = cli("fix", "a.py")
    assert path.read_bytes() == b"import lib\rlib.f()\r"
    assert "its line ends cannot be kept as they are" in out


def test_what_cannot_be_read_is_no_pass_and_hinders_nothing(cli, project):
    write(project / "bad.py", "lib.f(\n")
    path = write(project / "a.py", "import lib\nlib.f()\n")
    code, out, _ = cli("fix", "bad.py", "a.py")
    assert code == CANNOT_TELL
    assert path.read_text() == "import lib\nlib.f(n=1)\n"
    assert "note: not read: bad.py: not valid Python (line 1): '(' was never closed" in out
    assert (project / "bad.py").read_text() == "lib.f(\n"
    assert cli("fix", "nothing.py")[0] == USER


def test_a_notebook_is_not_rewritten(cli, project):
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": "import lib\nlib.f()"}
    text = json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]})
    path = write(project / "a.ipynb", text)
    code, out, _ = cli("fix", "a.ipynb")
    assert path.read_text() == text
    assert "  a.ipynb:cell 1:2  TST-001  notebooks are not rewritten: change the cell by hand" in out
    assert code == FINDINGS


def test_suppressed_and_known_findings_are_not_touched(cli, project):
    text = "import lib\nlib.f(1)  # tensoraudit: ignore[TST-001] on purpose\nlib.f(2)\nlib.f(3)\n"
    path = write(project / "a.py", text)
    cli("lint", "a.py", "--report", "json=report.json")
    report = json.loads((project / "report.json").read_text())
    report["findings"] = [each for each in report["findings"] if each["where"]["line"] == 3]
    write(project / "report.json", json.dumps(report))
    cli("baseline", "write", "report.json", "--out", "baseline.json")
    code, out, _ = cli("fix", "a.py", "--baseline", "baseline.json")
    assert path.read_text() == text.replace("lib.f(3)", "lib.f(3, n=1)")
    assert (code, "0 left" in out) == (OK, True)


def test_the_mode_of_a_file_stays_and_nothing_else_is_left(cli, project):
    path = write(project / "a.py", "import lib\nlib.f()\n")
    path.chmod(0o750)
    before = set(project.iterdir())
    cli("fix", "a.py")
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert set(project.iterdir()) == before


def test_a_file_that_may_not_be_written_is_said_and_the_others_are_mended(cli, project):
    locked = write(project / "a.py", "import lib\nlib.f()\n")
    other = write(project / "b.py", "import lib\nlib.f()\n")
    locked.chmod(0o444)
    code, out, err = cli("fix", ".")
    assert code == USER
    assert err == (f"tensoraudit: {locked}: the file is read-only. Make it writable, or apply --diff by hand.\n")
    assert (locked.read_text(), other.read_text()) == ("import lib\nlib.f()\n", "import lib\nlib.f(n=1)\n")
    assert "1 finding mended in 1 file" in out


def test_hard_links_would_part(cli, project):
    path = write(project / "a.py", "import lib\nlib.f()\n")
    os.link(path, project / "b.txt")
    code, out, err = cli("fix", "a.py")
    assert (code, path.read_text()) == (USER, "import lib\nlib.f()\n")
    assert "other names (hard links)" in err
    assert out.endswith("a.py:2  TST-001  the file was not written\n0 findings mended in 0 files, 1 left\n")


def test_a_symbolic_link_stays_one_and_its_target_is_mended(cli, project):
    target = write(project / "real.py", "import lib\nlib.f()\n")
    (project / "link.py").symlink_to(target)
    _, out, _ = cli("fix", "link.py")
    assert (project / "link.py").is_symlink()
    assert target.read_text() == "import lib\nlib.f(n=1)\n"
    assert out.startswith("real.py\n")


def test_a_disk_that_is_full_leaves_the_file_as_it_was(cli, project, monkeypatch):
    path = write(project / "a.py", "import lib\nlib.f()\n")
    before = set(project.iterdir())

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    code, _, err = cli("fix", "a.py")
    assert (code, path.read_text()) == (USER, "import lib\nlib.f()\n")
    assert "cannot be written: No space left on device" in err
    assert set(project.iterdir()) == before


def test_a_file_that_changes_meanwhile_is_not_overwritten(project, monkeypatch, capsys):
    from tensoraudit.cli import fix_rounds

    path = write(project / "a.py", "import lib\nlib.f()\n")
    done = fix_rounds.repair

    def late(*arguments, **options):
        result = done(*arguments, **options)
        path.write_text("import lib\nlib.f(5)\n")
        return result

    monkeypatch.setattr(fix_rounds, "repair", late)
    assert run(["fix", "a.py"]) == USER
    assert path.read_text() == "import lib\nlib.f(5)\n"
    assert "has changed since it was read" in capsys.readouterr().err


def test_a_package_keeps_its_imports(cli, project):
    (project / "pkg").mkdir()
    path = write(project / "pkg" / "__init__.py", "from lib import old\n\nold()\n")
    cli("fix", "pkg", "--unsafe")
    assert path.read_text() == "from lib import new, old\n\nnew()\n"


LOADED = """
import sys
sys.argv = ["tensoraudit", *sys.argv[1:]]
from tensoraudit.__main__ import main
try:
    main()
except SystemExit:
    pass
sys.stderr.write("libcst" * ("libcst" in sys.modules))
"""


@pytest.mark.parametrize("arguments", [["--help"], ["fix", "--help"], ["lint", "a.py"], ["rules", "list"]])
def test_only_fixing_imports_libcst(project, arguments):
    write(project / "a.py", "import lib\nlib.f()\n")
    done = subprocess.run([sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout
    assert "libcst" not in done.stderr


def test_a_name_cannot_write_lines_of_the_diff(cli, project):
    write(project / "a\n+++ b.py", "import lib\nlib.f()\n")
    _, out, _ = cli("fix", "--diff", ".")
    assert out.splitlines()[:2] == ['--- "a\\012+++ b.py"', '+++ "a\\012+++ b.py"']
