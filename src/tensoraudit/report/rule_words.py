"""A rule's `confirm` block in words, drawn from its YAML. Knows the operators of value tests, not what they do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

_OPERATORS: Final[Mapping[str, Callable[[Any], str]]] = {
    "is": lambda value: f"is {_code(value)}",
    "in": lambda value: f"is {_or(value)}",
    "not": lambda value: f"is not so that it {value_words(value)}",
    "lt": lambda value: f"is less than {_code(value)}",
    "le": lambda value: f"is at most {_code(value)}",
    "gt": lambda value: f"is more than {_code(value)}",
    "ge": lambda value: f"is at least {_code(value)}",
    "regex": lambda value: f"has text that fits `{value}`",
    "contains": lambda value: f"holds {_code(value)}",
    "version": lambda value: f"is a version {_code(value)}",
    "present": lambda value: "was measured" if value else "was not measured",
    "any": lambda value: f"has an element that {value_words(value)}",
    "every": lambda value: f"has only elements each of which {value_words(value)}",
    "none": lambda value: f"has no element that {value_words(value)}",
    "count": lambda value: f"has a number of elements that {value_words(value)}",
}
"""One phrase an operator; what is not here is shown as written."""


def value_words(test: Any) -> str:
    """Return a value test as the end of a sentence: `is more than 0`."""
    if isinstance(test, Mapping):
        return " and ".join(_OPERATORS.get(key, partial(_other, key))(value) for key, value in test.items())
    return f"is {_or(test)}"


def _other(key: Any, value: Any) -> str:
    return f"has {key}: {_code(value)}"


def confirm_words(block: Any) -> Iterator[str]:
    """Yield the lines of a nested list in Markdown for `confirmed` or `refuted`, given as plain data."""
    yield from _lines(block, "")


def _lines(block: Any, indent: str) -> Iterator[str]:
    if isinstance(block, list):
        block = {"any": block}
    for join, lead in (("all", "all of these hold:"), ("any", "one of these holds:")):
        if join in block and len(block[join]) > 1:
            yield f"{indent}- {lead}"
            for part in block[join]:
                yield from _lines(part, f"{indent}  ")
            return
        if join in block:
            yield from _lines(block[join][0], indent)
            return
    yield f"{indent}- {_row(block)}"


def _row(row: Mapping[str, Any]) -> str:
    every = row.get("quantifier") == "every"
    metric = f"`{row['measurement']}`"
    subject = f" of `{row['subject']}`" if "subject" in row else ""
    side = f" on the {row['side']}'s side" if "side" in row else ""
    tests = [value_words(row["value"])] if "value" in row else []
    if "detail" in row:
        tests.append(f"carries a detail that {value_words(row['detail'])}")
    told = " and ".join(tests)
    return f"{'every' if every else 'a'} measured {metric}{subject}{side} {told}".rstrip()


def _or(test: Any) -> str:
    items = test if isinstance(test, list) else [test]
    words = [value_words(item) if isinstance(item, Mapping) else _code(item) for item in items]
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _code(value: Any) -> str:
    return f"`{str(value).lower() if value is None or isinstance(value, bool) else value}`"


_FIXES: Final[Mapping[str, str]] = {
    "set-argument": "sets the argument",
    "remove-argument": "removes the argument",
    "rename-call": "calls",
    "replace-import": "imports",
}


def fix_words(fix: str | Mapping[str, Any]) -> str:
    """Return a fix as a sentence in Markdown: its own words, or what `tensoraudit fix` does."""
    if isinstance(fix, str):
        return fix.strip()
    done = " and ".join(
        f"{_FIXES.get(verb, verb)} {_changed(value)}" for verb, value in fix.items() if verb != "safety"
    )
    if fix.get("safety") == "safe":
        return f"`tensoraudit fix` {done}."
    return f"`tensoraudit fix --unsafe` {done}. It may change what the code means: look at the difference."


def _changed(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"`{name}={_new(new)}`" for name, new in value.items())
    return ", ".join(f"`{each}`" for each in (value if isinstance(value, list) else [value]))


def _new(value: Any) -> str:
    """Return the new value of an argument: a name, or a literal."""
    if isinstance(value, Mapping):
        return str(value["name"]) if "name" in value else repr(value.get("is"))
    return repr(value)
