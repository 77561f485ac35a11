"""What a user silences, from the comment or the configuration to the report and the exit code."""

import json
from datetime import date, timedelta

import pytest


@pytest.fixture
def lint(cli, project):
    """Lint `app.py` with this text and this configuration: exit code, rules found, rules suppressed with their reasons,
    and the notes."""

    def call(source, config="", *options, file="app.py"):
        (project / "pyproject.toml").write_text(f'[tool.tensoraudit]\nrules = ["./audit"]\n{config}')
        (project / file).write_text(source)
        code, out, err = cli("lint", file, "--report", "json", "--fail-on", "low", *options)
        if code not in {0, 1}:
            return code, err, None, None
        report = json.loads(out)
        found = [each["rule"] for each in report["findings"]]
        silenced = {each["finding"]["rule"]: each["reason"] for each in report["suppressed"]}
        return code, found, silenced, report["notes"]

    return call


def test_without_a_suppression_the_gate_fails(lint):
    assert lint("import old\nold.run()\n")[:2] == (1, ["TST-001"])


def test_a_comment_with_a_reason(lint):
    code, found, silenced, _ = lint("import old\nold.run()   # tensoraudit: ignore[TST-001] measured, harmless\n")
    assert (code, found, silenced) == (0, [], {"TST-001": "measured, harmless"})


def test_a_comment_for_the_whole_file(lint):
    text = "# tensoraudit: file-ignore[TST-001] generated\nimport old\nold.run()\nold.run()\n"
    assert lint(text)[:2] == (0, [])


def test_a_comment_without_a_reason_silences_nothing(lint):
    assert lint("import old\nold.run()   # tensoraudit: ignore[TST-001]\n")[:2] == (1, ["TST-001", "SUP-001"])


def test_a_comment_that_is_not_needed_is_reported(lint):
    assert lint("x = 1   # tensoraudit: ignore[TST-001] once needed\n")[:2] == (1, ["SUP-003"])


def test_an_unknown_id_names_the_nearest(cli, lint, project):
    assert lint("import old\nold.run()   # tensoraudit: ignore[TST-01] typing error\n")[:2] == (
        1,
        ["TST-001", "SUP-002"],
    )
    _, out, _ = cli("lint", "app.py", "--report", "json")
    messages = [each["message"] for each in json.loads(out)["findings"] if each["rule"] == "SUP-002"]
    assert messages == ["'TST-01' is no rule. Did you mean 'TST-001'?"]


@pytest.mark.parametrize("comment", ["ignroe[TST-001] a reason", "ignore TST-001 a reason", "Ignore[TST-001] a reason"])
def test_a_misspelt_comment_is_reported_and_silences_nothing(lint, comment):
    assert lint(f"import old\nold.run()   # tensoraudit: {comment}\n")[:2] == (1, ["TST-001", "SUP-002"])


def test_other_words_behind_the_mark_are_no_suppression(lint):
    assert lint("x = 1   # tensoraudit: see the wiki\n")[:2] == (0, [])


ENTRY = '[[tool.tensoraudit.ignore]]\nrule = "{rule}"\nwhere = "{where}"\nreason = "known"\n{more}\n'


@pytest.mark.parametrize(
    ("rule", "where", "expected"),
    [
        ("TST-001", "*.py", (0, [])),
        ("OLD-901", "app.py", (0, [])),  # an old id
        ("TST-001", "other.py", (1, ["TST-001", "SUP-003"])),
        ("TST-002", "*.py", (1, ["TST-001", "SUP-003"])),
        ("TST-003", "*.py", (1, ["TST-001", "SUP-002"])),
    ],
)
def test_the_configuration_by_place(lint, rule, where, expected):
    assert lint("import old\nold.run()\n", ENTRY.format(rule=rule, where=where, more=""))[:2] == expected


def test_the_configuration_expires(lint):
    today = date.today()  # a day early or late changes neither case
    for until, expected in ((today + timedelta(9), (0, [])), (today - timedelta(9), (1, ["TST-001", "SUP-004"]))):
        config = ENTRY.format(rule="TST-001", where="*.py", more=f"until = {until.isoformat()}")
        assert lint("import old\nold.run()\n", config)[:2] == expected


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ('[[tool.tensoraudit.ignore]]\nrule = "TST-001"\n', "the reason is missing"),
        ('[[tool.tensoraudit.ignore]]\nreason = "x"\n', "no rule is named"),
        ('ignore = "TST-001"\n', "[[tool.tensoraudit.ignore]]"),
        ('off = "TST-01"\n', "Did you mean 'TST-001'?"),
        ("off = 3\n", "is no list of names"),
        ('[tool.tensoraudit.severity]\nTST-001 = "lo"\n', "Did you mean 'low'?"),
        ('severity = "low"\n', "is no table"),
    ],
)
def test_a_wrong_configuration_is_one_sentence(lint, config, says):
    code, err, _, _ = lint("x = 1\n", config)
    assert code == 2
    assert says in err
    assert len(err.strip().splitlines()) == 1


def test_a_rule_that_is_switched_off_is_told_in_the_notes(lint):
    code, found, _, notes = lint("import old\nold.run()   # tensoraudit: ignore[TST-001] why\n", 'off = ["TST-001"]\n')
    assert (code, found) == (0, [])
    assert "rules switched off by the configuration: TST-001" in notes


def test_a_severity_that_is_changed_moves_the_gate_and_is_told(cli, lint, project):
    source, config = "import old\nold.run()\n", '[tool.tensoraudit.severity]\nTST-001 = "low"\n'
    _, found, _, notes = lint(source, config)
    assert (found, notes) == (["TST-001"], ["severities changed by the configuration: TST-001 is low"])
    assert cli("lint", "app.py", "--fail-on", "medium")[0] == 0


def test_a_baseline_holds_where_lines_move_and_tells_what_is_gone(cli, lint, project):
    lint("import old\nold.run()\n")
    cli("lint", "app.py", "--report", "json=report.json")
    assert cli("baseline", "write", "report.json")[0] == 0
    code, found, silenced, _ = lint("import old\n\n\nx = 1\nold.run()\n", "", "--baseline", "baseline.json")
    assert (code, found, list(silenced)) == (0, [], ["TST-001"])
    text = "import old, slow\nold.run()\nslow.run(n=1)\n"
    assert lint(text, "", "--baseline", "baseline.json")[:2] == (1, ["TST-002"])
    code, found, _, notes = lint("x = 1\n", "", "--baseline", "baseline.json")
    assert (code, found) == (0, [])
    assert notes == ["1 entries of baseline.json were not found again: write it anew to drop them"]


def notebook(*cells):
    made = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": text} for text in cells
    ]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def test_a_comment_in_a_notebook_speaks_of_its_own_cell(lint):
    text = notebook("import old", "old.run()   # tensoraudit: ignore[TST-001] once", "\nold.run()")
    code, found, silenced, _ = lint(text, file="app.ipynb")
    assert (code, found, silenced) == (1, ["TST-001"], {"TST-001": "once"})


def test_a_notebook_as_a_whole_and_a_comment_that_is_not_needed(lint):
    text = notebook("# tensoraudit: file-ignore[TST-001] a tutorial\nimport old", "old.run()", "old.run()")
    assert lint(text, file="app.ipynb")[:2] == (0, [])
    text = notebook("import old", "x = 1   # tensoraudit: ignore[TST-001] gone")
    assert lint(text, file="app.ipynb")[:2] == (1, ["SUP-003"])


def test_a_notebook_by_configuration_and_baseline(cli, lint, project):
    text = notebook("import old\nold.run()")
    config = ENTRY.format(rule="TST-001", where="*.ipynb", more="")
    assert lint(text, config, file="app.ipynb")[:2] == (0, [])
    lint(text, file="app.ipynb")
    cli("lint", "app.ipynb", "--report", "json=report.json")
    cli("baseline", "write", "report.json")
    moved = notebook("x = 1", "import old\n\nold.run()")
    assert lint(moved, "", "--baseline", "baseline.json", file="app.ipynb")[:2] == (0, [])
