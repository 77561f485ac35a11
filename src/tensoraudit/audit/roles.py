"""Which worker runs which side of an audit: the framework's own, or that of an interpreter for one side."""

from __future__ import annotations

from tensoraudit.artifacts.artifact import Artifact
from tensoraudit.audit.frameworks import FRAMEWORKS
from tensoraudit.options import Options

SIDES = ("source", "target")


def two_interpreters(options: Options) -> bool:
    """Whether the user gave a side an interpreter of its own."""
    return any(side in options.python for side in SIDES)


def source_role(framework: str, options: Options) -> str:
    """Return the worker of the reference: that of the source's interpreter, if it has one of its own."""
    role = FRAMEWORKS[framework].role  # type: ignore[index]
    return f"{role}:source" if "source" in options.python else role


def target_role(target: str, artifact: Artifact, options: Options) -> str:
    """Return the worker of a target: that of the target's interpreter where only interpreters differ."""
    role = FRAMEWORKS[target].role  # type: ignore[index]
    return f"{role}:target" if target == artifact.framework and two_interpreters(options) else role
