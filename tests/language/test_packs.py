"""Own packs: pack.yaml, folders by path or by an installed distribution, and what the configuration changes."""

import sys

import pytest

from tensoraudit.errors import ConfigError, RuleError
from tensoraudit.language.load import load_rules, rules_folder
from tensoraudit.language.packs import changes, chosen_rules, configured, rule_folders

GOOD = {"name": "acme", "prefix": "TST", "version": '"1.4"', "engine": '">=1,<2"'}


def make_pack(folder, lang, pack=GOOD, rule="{call: f}", name="one.yaml"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pack.yaml").write_text("".join(f"{key}: {value}\n" for key, value in pack.items()))
    (folder / name).write_text(lang.text(rule))
    return folder


def install(site, name, entry, owner="acme-rules"):
    """A distribution as pip leaves it: its metadata with one entry point."""
    info = site / f"{owner.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {owner}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[tensoraudit.packs]\n{name} = {entry}\n")


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of installed packages of this test's own."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


def problems_of(folder):
    with pytest.raises(RuleError) as error:
        load_rules([folder])
    return [(problem.line, problem.column, problem.text) for problem in error.value.problems]


def test_a_pack_by_path_beside_the_default_rules(lang, tmp_path):
    make_pack(tmp_path / "audit" / "graphs", lang, name="two.yaml")
    (tmp_path / "audit" / "graphs" / "pack.yaml").rename(tmp_path / "audit" / "pack.yaml")
    assert rule_folders(["default", "./audit"], tmp_path) == [rules_folder(), tmp_path / "audit"]
    rule = chosen_rules(["default", "./audit"], root=tmp_path).get("TST-001")
    assert (rule.pack, rule.category) == ("acme", "graphs")
    assert chosen_rules(["default"], root=tmp_path).get("TST-001") is None


def test_the_same_folder_twice_is_read_once(lang, tmp_path):
    make_pack(tmp_path / "audit", lang)
    assert len(chosen_rules(["./audit", "audit", str(tmp_path / "audit")], root=tmp_path)) == 1


@pytest.mark.parametrize(
    ("change", "line", "column", "says"),
    [
        ({"engine": '">=2"'}, 4, 9, "needs version >=2 of the rule language, and this tensoraudit has 1.0"),
        ({"engine": "soon"}, 4, 9, "'soon' is no range of versions"),
        ({"version": "1.4"}, 3, 10, "quote it"),
        ({"version": "new"}, 3, 10, "'new' is no version"),
        ({"prefix": "acme"}, 2, 9, "capital letters"),
        ({"name": "default"}, 1, 7, "take another"),
        ({"name": '"A Team"'}, 1, 7, "small letters"),
        ({"engin": "1"}, 5, 1, "did you mean 'engine'"),
        ({"prefix": None}, 1, 1, "the pack has no 'prefix'"),
    ],
)
def test_a_wrong_pack_file_says_where_and_what(lang, tmp_path, change, line, column, says):
    pack = {key: value for key, value in {**GOOD, **change}.items() if value is not None}
    found = problems_of(make_pack(tmp_path / "audit", lang, pack, rule="{cal: f}"))
    # The faults of its rules, which may be written for another engine, would only hide the one that matters.
    assert [(where, at) for where, at, _ in found] == [(line, column)]
    assert says in found[0][2]


def test_ids_outside_the_prefix_are_refused(lang, tmp_path):
    found = problems_of(make_pack(tmp_path / "audit", lang, {**GOOD, "prefix": "ACME"}))
    assert [text for _, _, text in found] == ["id TST-001 is not of the pack 'acme': its prefix is ACME"]


def test_one_id_in_two_packs_is_an_error(lang, tmp_path):
    for name in ("one", "two"):
        make_pack(tmp_path / name, lang, {**GOOD, "name": name})
    with pytest.raises(RuleError, match="id TST-001 is taken by"):
        chosen_rules(["./one", "./two"], root=tmp_path)


def test_an_installed_pack_is_found_and_nothing_of_it_is_imported(lang, tmp_path, site):
    package = make_pack(site / "acme_audit" / "rules", lang).parent
    (package / "__init__.py").write_text("raise SystemExit('imported')\n")
    install(site, "acme", "acme_audit:rules")
    assert rule_folders(["acme"], tmp_path) == [package / "rules"]
    assert chosen_rules(["acme"], root=tmp_path).get("TST-001").pack == "acme"
    assert "acme_audit" not in sys.modules


def test_an_installed_pack_inside_a_package_without_a_folder(lang, tmp_path, site):
    package = make_pack(site / "acme_audit" / "checks", lang)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("raise SystemExit('imported')\n")
    install(site, "acme", "acme_audit.checks")
    assert rule_folders(["acme"], tmp_path) == [package]
    assert not [name for name in sys.modules if name.startswith("acme_audit")]


@pytest.mark.parametrize("entry", ["nowhere", "acme_audit:rules", "acme_audit"])
def test_an_installed_pack_that_is_not_where_it_says(tmp_path, site, entry):
    (site / "acme_audit").mkdir()
    install(site, "acme", entry)
    with pytest.raises(ConfigError, match=r"'acme' of acme-rules names '.*', where no pack\.yaml lies"):
        rule_folders(["acme"], tmp_path)


def test_two_distributions_with_one_name_of_a_pack(tmp_path, site):
    install(site, "acme", "one", "acme-one")
    install(site, "acme", "two", "acme-two")
    with pytest.raises(ConfigError, match="acme-one and acme-two both offer"):
        rule_folders(["acme"], tmp_path)


def test_an_unknown_name_lists_the_packs_there_are(tmp_path, site):
    install(site, "acme", "acme_audit")
    with pytest.raises(ConfigError) as error:
        rule_folders(["acne"], tmp_path)
    assert "Did you mean 'acme'? Known packs: default, acme; a folder is written ./acne." in str(error.value)


def test_a_path_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match=r"\./audit: there is no such folder"):
        rule_folders(["./audit"], tmp_path)


def test_severities_and_rules_switched_off(lang, tmp_path):
    make_pack(tmp_path, lang)
    (tmp_path / "two.yaml").write_text(lang.text("{call: g}", "aliases: [OLD-7]").replace("TST-001", "TST-002"))
    rules = configured(load_rules([tmp_path]), {"TST-001": "low"}, ["OLD-7"])
    assert [(rule.id, rule.severity) for rule in rules] == [("TST-001", "low")]
    assert [rule.id for rule in rules.off] == ["TST-002"]
    assert rules.names == {"TST-001": "TST-001", "TST-002": "TST-002", "OLD-7": "TST-002"}
    assert changes(rules, {"TST-001": "low"}) == [
        "rules switched off by the configuration: TST-002",
        "severities changed by the configuration: TST-001 is low",
    ]


@pytest.mark.parametrize(
    ("severity", "off", "says"),
    [
        ({"TST-01": "low"}, [], "severity: there is no rule 'TST-01'. Did you mean 'TST-001'?"),
        ({"TST-001": "lo"}, [], "severity.TST-001: 'lo' is no severity. Did you mean 'low'?"),
        ({"TST-001": 3}, [], "3 is no severity"),
        ({}, ["TST-002"], "off: there is no rule 'TST-002'. Did you mean 'TST-001'?"),
    ],
)
def test_a_wrong_change_names_the_nearest_word(lang, tmp_path, severity, off, says):
    rules = load_rules([make_pack(tmp_path, lang)])
    with pytest.raises(ConfigError) as error:
        configured(rules, severity, off)
    assert says in str(error.value)


def test_a_change_to_a_pack_that_is_left_out_changes_nothing(lang, tmp_path):
    rules = load_rules([make_pack(tmp_path, lang)])
    assert configured(rules, {"ZZZ-900": "low"}, ["QQQ-901"]) is rules
    assert changes(rules, {"ZZZ-900": "low"}) == []
