"""Kept results of `lint`: the same report, and afresh as soon as anything that it depends on has changed."""

import json
import os
import stat
import sys
from pathlib import Path

import pytest

from tensoraudit.audit import lint_cache, lint_key
from tensoraudit.audit.lint_cache import cache_folder, cached_lint, keep, recall
from tensoraudit.options import make_options
from tensoraudit.report.json import document, without_moving_parts
from tensoraudit.steps import LINT, run_steps, source_audit

RULE = """\
id: TST-001
title: torch.load is used
severity: high
layer: deployment
match: {call: torch.load, args: {f: {literal: true}}}
message: "{callee} reads {arg:f}."
why: Because.
remedy: Do not.
examples:
  - python: |
      import torch
      torch.load("a")   # flag
  - python: |
      import torch
      torch.load(a)     # suspect
  - python: x = 1
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with code, a pack and a configuration; the current folder, with a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "project"
    (root / "audit").mkdir(parents=True)
    (root / "audit/pack.yaml").write_text('name: test\nprefix: TST\nversion: "1.0"\nengine: ">=1,<2"\n')
    (root / "audit/rule.yaml").write_text(RULE)
    (root / "pyproject.toml").write_text('[tool.tensoraudit]\nrules = ["./audit"]\n')
    (root / "a.py").write_text('import torch\ntorch.load("a.pt")\n')
    (root / "b.ipynb").write_text(json.dumps({"nbformat": 4, "cells": [
        {"cell_type": "code", "source": 'from torch import load\nload("b.pt")'},
    ]}))  # fmt: skip
    monkeypatch.chdir(root)
    return root


class Lint:
    """`lint` through the cache; `made` counts how often the work was done."""

    def __init__(self):
        self.made = 0

    def __call__(self, *paths, **given):
        options = make_options({"code": paths or (".",), **given})

        def work():
            self.made += 1
            return run_steps(LINT, source_audit(options))

        return cached_lint(options, work)


@pytest.fixture
def lint():
    return Lint()


def report(result):
    return json.dumps(without_moving_parts(document(result)))


def test_the_second_run_gives_the_same_report_without_the_work(project, lint):
    first, second, third = lint(), lint(), lint(cache=False)
    assert lint.made == 2
    assert report(first) == report(second) == report(third)
    assert [(each.where.path, each.where.cell, each.where.line) for each in second.findings] == [
        ("a.py", None, 2),
        ("b.ipynb", 1, 2),
    ]


CHANGES = {
    "one byte of a file": lambda root: (root / "a.py").write_text('import torch\ntorch.load("b.pt")\n'),
    "one cell": lambda root: (root / "b.ipynb").write_text((root / "b.ipynb").read_text().replace("b.pt", "c.pt")),
    "a new file": lambda root: (root / "c.py").touch(),
    "a new name": lambda root: (root / "a.py").rename(root / "c.py"),
    "a file that is gone": lambda root: (root / "a.py").unlink(),
    "a package marker": lambda root: (root / "__init__.py").touch(),
    "what is ignored": lambda root: (root / ".gitignore").write_text("a.py\n"),
    "one byte of a rule": lambda root: (root / "audit/rule.yaml").write_text(RULE.replace("Because.", "because.")),
    "a new rule": lambda root: (root / "audit/more.yaml").write_text(RULE.replace("TST-001", "TST-002")),
    "the pack": lambda root: (root / "audit/pack.yaml").write_text(
        'name: test\nprefix: TST\nversion: "1.1"\nengine: ">=1,<2"\n'
    ),
    "the severity of a rule": lambda root: (root / "pyproject.toml").write_text(
        '[tool.tensoraudit]\nrules = ["./audit"]\nseverity = {TST-001 = "low"}\n'
    ),
    "an ignored rule": lambda root: (root / "pyproject.toml").write_text(
        '[tool.tensoraudit]\nrules = ["./audit"]\n[[tool.tensoraudit.ignore]]\nrule = "TST-001"\nreason = "checked"\n'
    ),
    "another gate": lambda root: (root / "pyproject.toml").write_text(
        '[tool.tensoraudit]\nrules = ["./audit"]\nfail_on = "never"\n'
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_seen(project, lint, change):
    before = lint()
    CHANGES[change](project)
    after = lint()
    assert lint.made == 2
    fresh = lint(cache=False)
    assert report(after) == report(fresh)
    if change not in {"a new file", "a package marker", "the pack"}:
        assert report(before) != report(after)


def installed(folder, version):
    for old in folder.glob("*.dist-info"):
        (old / "METADATA").unlink()
        old.rmdir()
    info = folder / f"torch_test_double-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch-test-double\nVersion: {version}\n")


def test_another_version_of_a_package_is_seen(project, lint, tmp_path, monkeypatch):
    place = tmp_path / "site"
    place.mkdir()
    installed(place, "1.0")
    monkeypatch.setattr(sys, "path", [*sys.path, str(place)])
    lint(), lint()
    assert lint.made == 1
    installed(place, "1.1")
    lint()
    assert lint.made == 2


def test_another_version_of_the_same_name_in_place_is_seen(project, lint, tmp_path, monkeypatch):
    """An editable install keeps its folder and writes the metadata anew."""
    place = tmp_path / "site"
    place.mkdir()
    installed(place, "1.0")
    monkeypatch.setattr(sys, "path", [*sys.path, str(place)])
    lint()
    (metadata,) = place.glob("*/METADATA")
    metadata.write_text(metadata.read_text().replace("1.0", "1.10"))
    lint()
    assert lint.made == 2


def test_a_variable_that_rules_may_ask_for_is_seen_and_no_other(project, lint, monkeypatch):
    lint()
    monkeypatch.setenv("UNRELATED_TO_MODELS", "1")
    lint()
    assert lint.made == 1
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    lint()
    assert lint.made == 2


@pytest.mark.parametrize("change", ["version", "source", "python"])
def test_another_tensoraudit_or_python_is_seen(project, lint, monkeypatch, change):
    lint()
    if change == "version":
        monkeypatch.setattr(lint_key, "__version__", "99.0")
    elif change == "python":
        monkeypatch.setattr(sys, "version", sys.version.replace("3.", "4.", 1))
    else:
        stamp = lint_key._stamp
        own = Path(lint_cache.__file__)
        monkeypatch.setattr(lint_key, "_stamp", lambda path: f"{stamp(path)} {path == own}")
    lint()
    assert lint.made == 2


def test_another_folder_and_other_names_of_the_same_files_are_seen(project, lint, monkeypatch):
    lint("a.py")
    lint("./a.py")
    monkeypatch.chdir(project.parent)
    lint("project/a.py", rules=("project/audit",))
    assert lint.made == 3


def test_the_baseline_is_seen(project, lint):
    path = project / "known.json"
    (mark, *_) = [finding.fingerprint for finding in lint().findings]
    rows = [{"fingerprint": mark, "rule": "TST-001", "title": "t", "count": 1}]
    empty = {"schema": "tensoraudit-baseline/1", "findings": []}
    path.write_text(json.dumps(empty))
    first = lint(baseline=str(path))
    path.write_text(json.dumps({**empty, "findings": rows}))
    second = lint(baseline=str(path))
    assert lint.made == 3
    assert (len(first.findings), len(second.findings), len(second.suppressed)) == (2, 1, 1)
    assert report(lint(baseline=str(path))) == report(second)
    assert lint.made == 3


def test_how_the_report_looks_is_not_part_of_the_result(project, lint):
    lint()
    lint(report=("json",), quiet=True, color=False, verbose=True)
    assert lint.made == 1


def test_what_changes_while_the_work_is_done_is_not_kept(project):
    options = make_options({"code": (".",)})

    def work():
        result = run_steps(LINT, source_audit(options))
        (project / "a.py").write_text("import torch\n")
        return result

    cached_lint(options, work)
    assert list((project.parent / "cache").rglob("*.json")) == []


def test_a_run_that_could_not_read_everything_named_is_not_kept(project, lint):
    (project / "broken.py").write_text("x = (\n")
    assert lint("broken.py").exit_code == lint("broken.py").exit_code == 3
    assert lint.made == 2


def test_other_peoples_extractors_are_not_guessed_at(project, lint, monkeypatch):
    monkeypatch.setattr(lint_key, "entry_points", lambda group: ["one"])
    lint(), lint()
    assert lint.made == 2


def test_a_wrong_pack_is_still_an_error(project, lint):
    lint()
    (project / "audit/rule.yaml").write_text("id: [")
    with pytest.raises(Exception, match=r"rule\.yaml"):
        lint()


def kept():
    (path,) = cache_folder().glob("*.json")
    return path


def forged(path, **changes):
    """A file whose digest is right, with another content."""
    body = json.loads(path.read_bytes().partition(b"\n")[2])
    if "result" in changes:
        changes = {"result": {**body["result"], **changes["result"]}}
    body |= changes
    text = json.dumps(body).encode()
    return lint_cache._digest(text) + b"\n" + text


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-30]),
        lambda path: path.write_bytes(path.read_bytes().replace(b"torch.load", b"torch.Load")),
        lambda path: path.write_bytes(path.read_bytes() + b" "),
        lambda path: path.write_bytes(b"\xff\xfe\x00" * 1000),
        lambda path: path.write_bytes(lint_cache._digest(b"[" * 100_000) + b"\n" + b"[" * 100_000),
        lambda path: path.write_bytes(lint_cache._digest(b"[]") + b"\n[]"),
        lambda path: path.write_bytes(forged(path, key="0" * 64)),
        lambda path: path.write_bytes(forged(path, result={"findings": [1]})),
        lambda path: path.write_bytes(forged(path, result={"exit_code": "0"})),
        lambda path: path.write_bytes(forged(path, result={"more": 1})),
        lambda path: (path.unlink(), path.mkdir(0o700)),
        lambda path: path.chmod(0o666),
        lambda path: path.parent.chmod(0o777),
    ],
)
def test_a_damaged_or_foreign_file_is_computed_afresh(project, lint, damage):
    first = lint()
    damage(kept())
    second = lint()
    assert lint.made == 2
    assert report(first) == report(second)


def test_what_was_damaged_is_mended(project, lint):
    lint()
    kept().write_bytes(b"")
    lint(), lint()
    assert lint.made == 2


@pytest.mark.parametrize("obstacle", ["a file in its place", "no home", "a relative folder"])
def test_without_a_folder_nothing_is_kept_and_nothing_fails(project, lint, monkeypatch, obstacle):
    if obstacle == "a file in its place":
        (project.parent / "cache").write_text("")
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", "" if obstacle == "no home" else "somewhere")
        monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    assert len(lint().findings) == 2
    assert len(lint().findings) == 2
    assert lint.made == 2


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no users here")
def test_nobody_else_can_read_or_write_what_is_kept(project, lint):
    lint()
    path = kept()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_cache_is_bounded(project, lint, tmp_path, monkeypatch):
    result = lint()
    folder = tmp_path / "bounded"
    monkeypatch.setattr(lint_cache, "MOST_RESULTS", 3)
    keys = [f"{number:064x}" for number in range(5)]
    for second, key in enumerate(keys[:3]):
        keep(folder, key, result)
        os.utime(folder / f"{key}.json", (second, second))
    assert recall(folder, keys[0]) is not None  # used again: now the newest
    keep(folder, keys[3], result)
    assert {path.stem for path in folder.iterdir()} == {keys[0], keys[2], keys[3]}
    monkeypatch.setattr(lint_cache, "MOST_BYTES", 2 * (folder / f"{keys[3]}.json").stat().st_size)
    os.utime(folder / f"{keys[0]}.json", (0, 0))
    keep(folder, keys[4], result)
    assert len(list(folder.iterdir())) == 2


def test_left_over_drafts_are_removed(project, lint, tmp_path):
    folder = cache_folder()
    lint()
    old, fresh = folder / ".old.part", folder / ".fresh.part"
    for path in (old, fresh):
        path.touch()
    os.utime(old, (0, 0))
    lint("a.py")
    assert (old.exists(), fresh.exists()) == (False, True)
