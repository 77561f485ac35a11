"""First steps that need no model: which sources to read, which rules to ask. `lint` begins with them too."""

from __future__ import annotations

from pathlib import Path

from tensoraudit.artifacts.artifact import Artifact
from tensoraudit.artifacts.identify import identify
from tensoraudit.audit.state import Audit
from tensoraudit.errors import InputError
from tensoraudit.findings.baseline import read_baseline
from tensoraudit.findings.suppress import read_config
from tensoraudit.language.packs import changes, chosen_rules


def identify_sources(audit: Audit) -> Audit:
    """For source code alone: every path must be a Python file or a folder. Raises InputError."""
    for path in audit.options.code:
        if identify(path).format != "python_source":
            raise InputError(
                "this is no Python source",
                where=path,
                remedy="Give .py files or folders; models go to `tensoraudit scan`.",
            )
    return audit.add(artifact=Artifact(audit.spec, "python_source", "python"))


def choose_rules(audit: Audit) -> Audit:
    """Load the packs that the options name, and read what they silence, before anything runs: what is wrong in them is
    not found after minutes of work.

    Raises ConfigError, InputError and RuleError.
    """
    options = audit.options
    read_config(options.ignore)
    if options.baseline is not None:
        read_baseline(Path(options.baseline))
    rules = chosen_rules(options.rules, root=options.root, severity=options.severity, off=options.off, examples=False)
    return audit.add(rules=rules, notes=tuple(changes(rules, options.severity)))
