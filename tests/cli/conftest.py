import pytest

from tensoraudit.cli.app import run


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Nothing of an earlier run is recalled, and nothing is left in the user's folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def cli(capsys):
    """Run the command line in this process: exit code, standard output, standard error."""

    def call(*arguments):
        code = run([str(each) for each in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


PACK = 'name: acme\nprefix: TST\nversion: "1.0"\nengine: ">=1,<2"\n'
RULE = """\
id: {id}
title: A call of {callee}
severity: high
layer: graph
match: {{call: {callee}{args}}}
message: "{{callee}} is called."
why: Because.
remedy: Change it.
aliases: [{alias}]
examples:
  - python: |
      {module}.run({flagged})   # flag
  - python: "pass"
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a pack of two rules, `old.run` (TST-001) and `slow.run(n=1)` (TST-002), and no others."""
    monkeypatch.chdir(tmp_path)
    pack = tmp_path / "audit"
    (pack / "calls").mkdir(parents=True)
    (pack / "pack.yaml").write_text(PACK)
    words = {"id": "TST-001", "callee": "old.run", "args": "", "alias": "OLD-901", "module": "import old; old"}
    (pack / "calls" / "one.yaml").write_text(RULE.format(**words, flagged=""))
    words = {"id": "TST-002", "callee": "slow.run", "alias": "OLD-902", "module": "import slow; slow"}
    (pack / "calls" / "two.yaml").write_text(RULE.format(**words, args=", args: {n: 1}", flagged="n=1"))
    (tmp_path / "pyproject.toml").write_text('[tool.tensoraudit]\nrules = ["./audit"]\n')
    return tmp_path
