"""Loading folders: every fault of every file, ids, aliases, bad files."""

import os

import pytest

from tensoraudit.errors import RuleError
from tensoraudit.language.compile import LATER
from tensoraudit.language.document import read_file
from tensoraudit.language.load import _before_examples, load_rules, parse_rules, rules_folder


def write(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_folder_in_the_order_of_ids(lang, tmp_path):
    write(tmp_path, "b/one.yaml", lang.text("{call: f}", "aliases: [OLD-7]"))
    write(tmp_path, "a/two.yaml", lang.text("{call: g}").replace("TST-001", "TST-000"))
    write(tmp_path, "a/pack.yaml", "{name: acme, prefix: TST, version: '1', engine: '>=1'}")
    write(tmp_path, "a/notes.txt", "not a rule")
    rules = load_rules([tmp_path])
    assert [rule.id for rule in rules] == ["TST-000", "TST-001"]
    assert rules.get("OLD-7") is rules.get("TST-001")
    assert rules.get("TST-9") is None
    assert [(rule.pack, rule.category) for rule in rules] == [("acme", ""), (tmp_path.name, "b")]
    assert len(load_rules([tmp_path / "b", tmp_path / "a" / "two.yaml"])) == 2


def test_all_faults_of_all_files(lang, tmp_path):
    write(tmp_path, "1.yaml", lang.text("{cal: f}"))
    write(tmp_path, "2.yaml", "a: [")
    write(tmp_path, "3.yaml", b"\xff\xfe\x00")
    write(tmp_path, "4.yaml", lang.text("{call: f}", "certainty: sure"))
    with pytest.raises(RuleError) as error:
        load_rules([tmp_path, tmp_path / "missing.yaml"])
    problems = error.value.problems
    assert [problem.path.rpartition("/")[2] for problem in problems] == [
        "1.yaml",
        "2.yaml",
        "3.yaml",
        "4.yaml",
        "missing.yaml",
    ]
    assert f"{tmp_path}/1.yaml:9:3: a pattern needs an anchor" in str(error.value)
    assert "cannot be read" in problems[2].text


def test_two_rules_with_one_id(lang, tmp_path):
    write(tmp_path, "1.yaml", lang.text("{call: f}"))
    write(tmp_path, "2.yaml", lang.text("{call: f}").replace("TST-001", "TST-002") + "aliases: [TST-001]\n")
    with pytest.raises(RuleError, match=r"id TST-001 is taken by .*1\.yaml:1"):
        load_rules([tmp_path])


def test_several_rules_in_one_file(lang, tmp_path):
    two = lang.text("{call: g}").replace("TST-001", "TST-002")
    write(tmp_path, "1.yaml", lang.text("{call: f}") + "---\n" + two)
    assert [(rule.id, rule.line) for rule in load_rules([tmp_path])] == [("TST-001", 1), ("TST-002", 15)]


def test_the_rules_that_come_with_it():
    assert (rules_folder() / "selection").is_dir()
    rules = load_rules([rules_folder()])
    ids = {rule.id for rule in rules} | {name for rule in rules for name in rule.aliases}
    assert len(rules) >= 20
    assert not [name for rule in rules for name in rule.supersedes if name not in ids]


def test_an_audit_reads_the_shipped_rules_without_their_examples():
    whole, short = load_rules([rules_folder()]), load_rules([rules_folder()], examples=False)
    assert [(rule.id, rule.title, rule.why, rule.see_also, rule.pack) for rule in short] == [
        (rule.id, rule.title, rule.why, rule.see_also, rule.pack) for rule in whole
    ]
    assert all(rule.examples for rule in whole)
    assert not any(rule.examples or "examples" in rule.document.items for rule in short)


def test_what_an_audit_asks_of_few_shipped_rules_is_read_then():
    whole, short = load_rules([rules_folder()]), load_rules([rules_folder()], examples=False)
    assert not any(key in rule.document.items for rule in short for key in LATER)
    assert [(rule.remedy, rule.references) for rule in short] == [(rule.remedy, rule.references) for rule in whole]
    confirms = [
        [rule.confirm and (rule.confirm.probe, rule.confirm.parameters) for rule in each] for each in (whole, short)
    ]
    assert confirms[0] == confirms[1] and any(confirms[0])


def test_what_is_read_later_keeps_its_lines_and_names_its_faults(lang):
    text = lang.text("{call: f}", "confirm:\n  # none\n  probe: output")
    (rule,), problems = parse_rules(text, "r.yaml", examples=False)
    assert not problems
    with pytest.raises(RuleError) as error:
        _ = rule.why
    assert [str(each) for each in error.value.problems] == [str(each) for each in parse_rules(text, "r.yaml")[1]]
    assert "r.yaml:10:3: 'confirm' needs 'confirmed'" in str(error.value)


def test_a_text_of_several_documents_is_not_divided(lang):
    text = lang.text("{call: f}") + "---\n" + lang.text("{call: g}").replace("Because.", "Why not?")
    rules, problems = parse_rules(text, examples=False)
    assert ([rule.why for rule in rules], problems) == (["Because.", "Why not?"], [])


@pytest.mark.parametrize("size", [1 << 16, (1 << 16) + 1, 1 << 17])
def test_a_large_file_is_read_to_its_end(tmp_path, size):
    write(tmp_path, "rule.yaml", "#" * size)
    assert read_file(tmp_path / "rule.yaml") == "#" * size


WHOLE = "id: TST-001\nexamples:\n  - python: |\n      f()   # flag\n"


@pytest.mark.parametrize("after", ["see-also: [ONX-001]\n", "---\nid: TST-002\n", "- python: g()\n"])
def test_examples_that_do_not_end_the_file_are_read(after):
    assert _before_examples(WHOLE) == "id: TST-001"
    assert _before_examples(WHOLE + after) == WHOLE + after


def test_a_users_own_pack_is_always_read_as_a_whole(lang, tmp_path):
    write(tmp_path, "rule.yaml", lang.text("{call: f}").replace("measurements:", "measurments:"))
    with pytest.raises(RuleError, match="measurments"):
        load_rules([tmp_path], examples=False)


def test_a_pack_without_a_rule_asks_nothing_and_is_no_pass(tmp_path):
    (tmp_path / "rule.yml").write_text("id: ACME-001\n")
    with pytest.raises(RuleError, match=r"there is no rule in it; rules are files \*\.yaml"):
        load_rules([tmp_path])


@pytest.mark.parametrize("name", ["rule.yaml", "pack.yaml"])
def test_a_pipe_is_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(RuleError, match="cannot be read: it is no regular file"):
        load_rules([tmp_path])
