"""`tensoraudit rules`: every command from the arguments to what is printed."""

import json

import pytest

from tensoraudit.cli.rules_new import STARTS, next_id, rule_text
from tensoraudit.language.examples import run_examples
from tensoraudit.language.load import parse_rules


def ids(out):
    return [each["id"] for each in json.loads(out)["rules"]]


# list


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], ["TST-001", "TST-002"]),
        (["--severity", "high"], ["TST-001", "TST-002"]),
        (["--severity", "low"], []),
        (["--severity", "low", "--severity", "high"], ["TST-001", "TST-002"]),
        (["--layer", "memory"], []),
        (["--certainty", "certain"], ["TST-001", "TST-002"]),
        (["--source", "jax", "--target", "tflite"], ["TST-001", "TST-002"]),
        (["--pack", "acme"], ["TST-001", "TST-002"]),
        (["--category", "calls"], ["TST-001", "TST-002"]),
        (["--probe", "none"], ["TST-001", "TST-002"]),
        (["--probe", "outputs"], []),
        (["SLOW"], ["TST-002"]),
        (["slow", "because"], ["TST-002"]),
        (["slow", "nowhere"], []),
        (["old-901"], ["TST-001"]),
    ],
)
def test_a_list_through_filters(cli, project, filters, expected):
    code, out, _ = cli("rules", "list", *filters, "--json")
    assert (code, ids(out)) == (0, expected)


def test_source_and_target_are_the_scans_own_question(cli, project):
    path = project / "audit" / "calls" / "one.yaml"
    path.write_text(path.read_text() + "source: [pytorch]\ntarget: [onnx]\n")
    assert ids(cli("rules", "list", "--source", "pytorch", "--json")[1]) == ["TST-001", "TST-002"]
    assert ids(cli("rules", "list", "--source", "jax", "--json")[1]) == ["TST-002"]
    assert ids(cli("rules", "list", "--target", "tflite", "--json")[1]) == ["TST-002"]


@pytest.mark.parametrize(
    ("filters", "says"),
    [
        (["--severity", "hihg"], "Did you mean 'high'?"),
        (["--layer", "graphs"], "Did you mean 'graph'?"),
        (["--source", "torch"], "Did you mean 'pytorch'?"),
        (["--pack", "acne"], "Did you mean 'acme'?"),
        (["--category", "call"], "Did you mean 'calls'?"),
        (["--certainty", "sure"], "certain, likely, suspected, advice"),
        (["--probe", "output"], "Did you mean 'outputs'?"),
        (["--rules", "./audti"], "there is no such folder"),
        (["--rules", "acme"], "Known packs: default"),
    ],
)
def test_a_filter_that_nothing_can_fit_is_refused(cli, project, filters, says):
    code, out, err = cli("rules", "list", *filters)
    assert (code, out) == (2, "")
    assert says in err


def test_the_table_is_one_line_a_rule_where_nobody_looks(cli, project):
    _, out, _ = cli("rules", "list")
    assert [line.split() for line in out.splitlines()] == [
        ["id", "severity", "layer", "probe", "title"],
        ["TST-001", "high", "graph", "A", "call", "of", "old.run"],
        ["TST-002", "high", "graph", "A", "call", "of", "slow.run"],
    ]


def test_the_json_of_a_list_is_what_the_documentation_says(cli, project):
    document = json.loads(cli("rules", "list", "--json")[1])
    assert document["schema"] == "tensoraudit-rules/1"
    assert document["rules"][1] == {
        "id": "TST-002",
        "title": "A call of slow.run",
        "severity": "high",
        "layer": "graph",
        "certainty": "certain",
        "pack": "acme",
        "category": "calls",
        "source": [],
        "target": [],
        "anchors": ["call"],
        "probe": None,
        "versions": "",
        "aliases": ["OLD-902"],
        "deprecated": False,
        "see_also": [],
        "supersedes": [],
    }


def test_a_folder_on_the_command_line_takes_the_place_of_the_configured_ones(cli, project):
    other = project / "other"
    other.mkdir()
    text = (project / "audit" / "calls" / "one.yaml").read_text()
    (other / "x.yaml").write_text(text.replace("TST-001", "OTH-001").replace("OLD-901", "OLD-1"))
    assert ids(cli("rules", "list", "--rules", "./other", "--json")[1]) == ["OTH-001"]
    assert ids(cli("rules", "list", "--rules", "./other", "--rules", "./audit", "--json")[1]) == [
        "OTH-001",
        "TST-001",
        "TST-002",
    ]


def test_a_pack_in_the_configuration_lies_beside_the_file(cli, project, monkeypatch):
    inner = project / "src"
    inner.mkdir()
    monkeypatch.chdir(inner)
    assert ids(cli("rules", "list", "--json")[1]) == ["TST-001", "TST-002"]


# show


def test_a_page_by_id_in_any_case_or_by_an_old_id(cli, project):
    for name in ("TST-001", "tst-001", "OLD-901"):
        code, out, _ = cli("rules", "show", name)
        assert code == 0
        assert "TST-001: A call of old.run" in out


def test_a_rule_as_json_holds_its_texts_and_its_pattern(cli, project):
    document = json.loads(cli("rules", "show", "TST-002", "--json")[1])
    assert (document["schema"], document["why"], document["line"]) == ("tensoraudit-rule/1", "Because.", 1)
    assert document["match"] == {"call": "slow.run", "args": {"n": 1}}


def test_an_unknown_id_names_the_nearest(cli, project):
    code, _, err = cli("rules", "show", "TST-01")
    assert code == 2
    assert "Did you mean 'TST-001'?" in err


# test


def test_examples_of_a_pack_by_folder_and_by_configuration(cli, project):
    for arguments in ([], ["./audit"], ["audit"], [project / "audit" / "calls" / "one.yaml"]):
        assert cli("rules", "test", *arguments)[0] == 0
    path = project / "audit" / "calls" / "one.yaml"
    path.write_text(path.read_text().replace("   # flag", ""))
    assert cli("rules", "test", "./audit")[0] == 2  # nothing is flagged any more: no rule
    path.write_text(path.read_text().replace("old.run()", "old.walk()   # flag"))
    code, out, _ = cli("rules", "test", "./audit")
    assert code == 1
    assert "TST-001 example 1" in out
    assert "missing" in out


# explain

SOURCE = "import slow\nslow.run(n=2)\nslow.walk()\n"


def test_the_nearest_place_its_conditions_and_the_first_that_fails(cli, project):
    (project / "app.py").write_text(SOURCE)
    code, out, _ = cli("rules", "explain", "TST-002", "app.py")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert code == 0
    assert "nearest: call slow.run app.py:2" in lines
    assert "no args.n line 5: match: {call: slow.run, args: {n: 1}}" in lines
    assert lines[-1].startswith("silent: 'args.n' is the first condition that does not hold (audit/calls/two.yaml:5:")


def test_nothing_with_the_anchor_names_what_is_there(cli, project):
    (project / "app.py").write_text(SOURCE)
    _, out, _ = cli("rules", "explain", "TST-001", "app.py")
    assert "silent: no call is named old.run" in out
    assert out.index("call slow.run") < out.index("call slow.walk")


def test_a_match_is_told_with_its_state(cli, project):
    (project / "app.py").write_text("import old\nold.run()\n")
    assert cli("rules", "explain", "OLD-901", "app.py")[1].splitlines()[-1] == "certain: every condition holds"


def test_a_notebook_is_explained_by_cell(cli, project):
    cells = [{"cell_type": "code", "metadata": {}, "source": text} for text in ("import slow", "x = 1\nslow.run(n=2)")]
    (project / "app.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5}))
    assert "app.ipynb:cell 2:2" in cli("rules", "explain", "TST-002", "app.ipynb")[1]


def test_a_graph_is_explained_by_node(cli, project):
    onnx = pytest.importorskip("onnx")
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) {y = Celu (x)}'
    )
    (project / "m.onnx").write_bytes(model.SerializeToString())
    text = rule_text("TST-003", "node", "T").replace('domain: ""', 'domain: ""\n  attributes: {alpha: 2.0}')
    (project / "audit" / "three.yaml").write_text(text.replace("Celu (x)   #", "Celu <alpha = 2.0> (x)   #"))
    _, out, _ = cli("rules", "explain", "TST-003", "m.onnx")
    assert "nearest: node Celu" in out
    assert "'attributes.alpha' is the first condition that does not hold" in out
    assert "there is no call at all" in cli("rules", "explain", "TST-001", "m.onnx")[1]


@pytest.mark.parametrize(("text", "says"), [("def (", "not valid Python"), (None, "does not exist")])
def test_a_file_without_facts_is_refused_with_the_reason(cli, project, text, says):
    if text is not None:
        (project / "app.py").write_text(text)
    code, _, err = cli("rules", "explain", "TST-001", "app.py")
    assert code == 2
    assert says in err


# new


@pytest.mark.parametrize("kind", STARTS)
def test_the_skeleton_of_every_kind_is_a_rule_whose_examples_hold(kind):
    rules, problems = parse_rules(rule_text("ABC-001", kind, 'A "quoted": title'))
    assert not problems
    assert rules[0].title == 'A "quoted": title'
    assert {each.pattern.kind for each in rules[0].alternatives} == {kind}
    outcomes = run_examples(rules[0])
    assert {outcome.status for outcome in outcomes} == {"reported", "validated"}, outcomes


def test_a_new_rule_in_a_pack_that_is_there(cli, project):
    code, out, _ = cli("rules", "new", "Half of a model", "--pack", "audit", "--category", "dtypes")
    path = project / "audit" / "dtypes" / "TST-003-half-of-a-model.yaml"
    assert (code, out.splitlines()[0]) == (0, "wrote audit/dtypes/TST-003-half-of-a-model.yaml")
    assert path.read_text().startswith("id: TST-003\n")
    # It is found at once, and is not done before its words are written.
    code, out, _ = cli("rules", "test")
    assert code == 1
    assert "TST-003: unfinished: message, why, remedy still to be written" in out


def test_a_new_rule_in_a_new_folder_makes_it_a_pack(cli, project):
    assert cli("rules", "new", "--pack", "./own", "--prefix", "OWN", "--kind", "node")[0] == 0
    assert (project / "own" / "OWN-001-todo.yaml").exists()
    assert ids(cli("rules", "list", "--rules", "./own", "--json")[1]) == ["OWN-001"]


def test_numbers_are_never_used_twice(tmp_path):
    (tmp_path / "a.yaml").write_text("id: ABC-004\naliases: [ABC-019, XYZ-050]\nwhy: not as in ABC-900\n")
    (tmp_path / "broken.yaml").write_text("id: ABC-007\nmatch: [\n")
    assert next_id("ABC", [tmp_path]) == "ABC-020"
    assert next_id("NEW", [tmp_path]) == "NEW-001"


def test_nothing_is_overwritten(cli, project, monkeypatch):
    monkeypatch.setattr("tensoraudit.cli.rules_new.next_id", lambda *_: "TST-001")
    (project / "audit" / "TST-001-todo.yaml").write_text("mine")
    code, _, err = cli("rules", "new", "--pack", "audit")
    assert (code, "is there already" in err) == (2, True)
    assert (project / "audit" / "TST-001-todo.yaml").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "no pack is named"),
        (["--pack", "audit", "--kind", "calls"], "Did you mean 'call'?"),
        (["--pack", "audit", "--prefix", "ABC"], "the pack's prefix is TST, not ABC"),
        (["--pack", "new"], "no prefix of ids is named"),
        (["--pack", "new", "--prefix", "abc"], "'abc' is no prefix"),
        (["--pack", "audit", "--category", "../up"], "'../up' is no category"),
        (["--pack", "audit", "half \udcff"], "cannot be shown"),
    ],
)
def test_a_wrong_wish_for_a_new_rule_writes_nothing(cli, project, arguments, says):
    before = sorted(project.rglob("*"))
    code, _, err = cli("rules", "new", *arguments)
    assert code == 2
    assert says in err
    assert sorted(project.rglob("*")) == before


def test_a_new_pack_in_a_loop_of_links(cli, project):
    (project / "loop").symlink_to("loop")
    code, _, err = cli("rules", "new", "x", "--pack", "loop", "--prefix", "ABC")
    assert (code, err.count("\n")) == (2, 1)


# pages


def test_pages_need_a_folder(cli, project):
    code, _, err = cli("rules", "pages", "./audit", "--out", "")
    assert (code, "no folder is named" in err) == (2, True)
    assert not (project / "index.md").exists()


def test_pages_of_a_pack_and_what_is_gone(cli, project):
    out = project / "pages"
    assert cli("rules", "pages", "./audit", "--out", "pages")[0] == 0
    assert sorted(path.name for path in out.iterdir()) == ["TST-001.md", "TST-002.md", "index.md"]
    (out / "mine.md").write_text("by hand")
    (project / "audit" / "calls" / "two.yaml").unlink()
    assert cli("rules", "pages", "./audit", "--out", "pages")[1].strip() == "2 pages in pages, 1 removed"
    assert sorted(path.name for path in out.iterdir()) == ["TST-001.md", "index.md", "mine.md"]


def test_an_unknown_command_names_the_nearest(cli):
    code, _, err = cli("rules", "lst")
    assert code == 2
    assert "list" in err


# cost, schema


def test_the_cost_without_files_tells_the_index(cli, project):
    _, out, _ = cli("rules", "cost")
    assert [line.split() for line in out.splitlines()] == [
        ["id", "index", "searches", "candidates", "anchors"],
        ["TST-001", "exact", "0", "call", "by", "callee:", "old.run"],
        ["TST-002", "exact", "0", "call", "by", "callee:", "slow.run"],
    ]


def test_the_cost_in_files_counts_candidates_and_puts_the_dearest_first(cli, project):
    (project / "one.py").write_text("import slow\nslow.run()\nslow.run(n=1)\n")
    (project / "two.py").write_text("import old, slow\nold.run()\nslow.run()\n")
    document = json.loads(cli("rules", "cost", "one.py", "two.py", "--json")[1])
    assert document["schema"] == "tensoraudit-rules-cost/1"
    assert [(each["rule"], each["candidates"]) for each in document["rules"]] == [("TST-002", 3), ("TST-001", 1)]


def test_a_rule_that_scans_is_named_first(cli, project):
    text = (project / "audit" / "calls" / "two.yaml").read_text().replace("call: slow.run", "call: '**'")
    text = text.replace("TST-002", "TST-009").replace("OLD-902", "OLD-909") + "scan: true\n"
    (project / "audit" / "calls" / "nine.yaml").write_text(text)
    assert cli("rules", "cost")[1].splitlines()[1].split()[:3] == ["TST-009", "scan:", "true"]


def test_the_schema_goes_to_standard_output(cli):
    schema = json.loads(cli("rules", "schema")[1])
    assert "match" in schema["required"]
    assert "severity" in schema["properties"]


# an installed pack, from the configuration to the finding


def test_an_installed_pack_is_asked_by_lint(cli, project, monkeypatch):
    site = project / "site"
    (site / "acme_audit").mkdir(parents=True)
    (project / "audit").rename(site / "acme_audit" / "rules")
    (site / "acme_audit" / "__init__.py").write_text("raise SystemExit('imported')\n")
    info = site / "acme_audit-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-audit\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tensoraudit.packs]\nacme = acme_audit:rules\n")
    monkeypatch.syspath_prepend(str(site))
    (project / "pyproject.toml").write_text('[tool.tensoraudit]\nrules = ["acme"]\n')
    (project / "app.py").write_text("import old\nold.run()\n")
    code, out, _ = cli("lint", "app.py", "--report", "json")
    assert (code, [each["rule"] for each in json.loads(out)["findings"]]) == (1, ["TST-001"])
    assert cli("rules", "test", "acme")[0] == 0
