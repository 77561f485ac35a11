import subprocess
import sys

import pytest

from tensoraudit.cli.app import COMMANDS, GROUPS, make_app
from tensoraudit.cli.help import HELP, RULES_HELP
from tensoraudit.cli.rules import app as rules_app

STATIC = """
import sys
sys.argv = ["tensoraudit", "lint", sys.argv[1], "--report", "json"]
from tensoraudit.__main__ import main
try:
    main()
except SystemExit:
    pass
loaded = {"torch", "onnx", "onnxruntime", "tensorflow", "jax"} & set(sys.modules)
sys.stderr.write("loaded:" + ",".join(sorted(loaded)))
"""


def test_the_constant_help_names_every_command():
    app = make_app()
    names = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}
    assert names == {*COMMANDS, *GROUPS}
    assert {"scan", "compare", "lint", "doctor", "rules", "baseline"} <= names
    assert all(f"  {name} " in HELP for name in names)


def test_the_constant_help_of_rules_names_every_command_of_it():
    names = {command.name for command in rules_app.registered_commands}
    assert {"list", "show", "test", "explain", "new", "pages"} <= names
    listed = {line.split()[0] for line in RULES_HELP.partition("Commands:")[2].splitlines() if line.startswith("  ")}
    assert names == listed - {"tensoraudit"}


LOADED = """
import sys
sys.argv = ["tensoraudit", *sys.argv[1:]]
from tensoraudit.__main__ import main
try:
    main()
except SystemExit:
    pass
sys.stderr.write(",".join(sorted({"typer", "rich", "numpy", "yaml", "tensoraudit.pipeline"} & set(sys.modules))))
"""


@pytest.mark.parametrize(
    ("arguments", "loaded"),
    [
        (["--help"], ""),
        (["rules", "--help"], ""),
        (["rules"], ""),
        (["rules", "list"], "typer,yaml"),
        (["lint", "--no-cache", __file__], "rich,typer,yaml"),
    ],
)
def test_what_a_command_does_not_need_is_not_imported(arguments, loaded):
    done = subprocess.run([sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout
    assert done.stderr == loaded


def test_help_and_version_answer_through_the_module():
    helped = subprocess.run([sys.executable, "-m", "tensoraudit", "--help"], capture_output=True, text=True, check=True)
    assert helped.stdout == HELP
    version = subprocess.run(
        [sys.executable, "-m", "tensoraudit", "--version"], capture_output=True, text=True, check=True
    )
    assert version.stdout.startswith("tensoraudit 0.")


def test_every_command_explains_its_options(cli):
    for name in ("scan", "compare", "lint", "doctor", "rules"):
        code, out, _ = cli(name, "--help")
        assert code == 0
        assert "Usage" in out


def test_lint_imports_no_framework(tmp_path):
    source = tmp_path / "train.py"
    source.write_text("import torch\nprint(torch.zeros(1))\n")
    done = subprocess.run([sys.executable, "-c", STATIC, str(source)], capture_output=True, text=True, check=True)
    assert done.stderr.endswith("loaded:")
