"""An example inside a rule: its parts and what it expects. Builds no facts and imports no framework."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tensoraudit.language import problems as wrong
from tensoraudit.language.document import Table, Tree
from tensoraudit.language.problems import Problems, nearest

EXAMPLE_KEYS = (
    "python", "file", "onnx", "inputs", "outputs", "initializers", "opset", "opsets", "ir_version", "onnx_model",
    "nodes", "torchscript", "exported_program", "values", "model", "tensors", "checkpoint", "environment",
    "measurements", "side", "flag", "suspect", "fixed",
)  # fmt: skip
FORMS = (
    "python", "onnx", "onnx_model", "nodes", "torchscript", "exported_program", "values", "model", "tensors",
    "checkpoint", "environment", "measurements",
)  # fmt: skip
_MARK = re.compile(r"#\s*(flag|suspect)\b.*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Example:
    """One example. `marks` maps a form (`python`, `onnx`) to line number to expected state; `flag` and `suspect` name
    what is reported where there are no lines. Line numbers of marks count from 1 within the text."""

    number: int
    line: int
    column: int
    parts: Mapping[str, Tree]
    marks: Mapping[str, Mapping[int, str]]
    flag: tuple[str, ...]
    suspect: tuple[str, ...]

    @property
    def silent(self) -> bool:
        """Whether it expects nothing to be reported."""
        return not (self.flag or self.suspect or any(self.marks.values()))


def compile_example(tree: Tree, number: int, problems: Problems) -> Example | None:
    """Compile one example; what is in its parts is looked at when it is run."""
    return problems.guard(lambda: _compile(wrong.table(tree, "an example"), number, problems))


def _compile(rows: Table, number: int, problems: Problems) -> Example:
    for key in rows.items:
        if key not in EXAMPLE_KEYS:
            problems.add(rows.keys[key], f"an example has no key '{key}'{nearest(str(key), EXAMPLE_KEYS)}")
    if not any(form in rows.items for form in FORMS):
        problems.add(rows, f"an example needs one of {', '.join(FORMS)}")
    if "fixed" in rows.items and "python" not in rows.items:
        problems.add(
            rows.keys["fixed"], "'fixed' is the text of 'python' after the fix, and this example has no 'python'"
        )
    marks = {
        form: _marks(wrong.text(rows.items[form], form))
        for form in ("python", "onnx", "onnx_model")
        if form in rows.items
    }
    flag, suspect = (_listed(rows, key) for key in ("flag", "suspect"))
    return Example(number, rows.line, rows.column, rows.items, marks, flag, suspect)


def without_marks(text: str) -> str:
    """Return a text without its marks, each line kept in its place."""
    return _MARK.sub("", text)


def _marks(text: str) -> dict[int, str]:
    return {text.count("\n", 0, found.start()) + 1: found[1] for found in _MARK.finditer(text)}


def _listed(rows: Table, key: str) -> tuple[str, ...]:
    return wrong.texts(rows.items[key], key) if key in rows.items else ()
