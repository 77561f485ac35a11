"""How callables take their arguments, version by version, so that `torch.load(f, "cpu")` reads like
`torch.load(f, map_location="cpu")` and a rule can ask what leaving an argument out means.

When source is read nobody knows yet which version will run it. So a position gets a name only where all versions agree
that take as many positional arguments as the call has: `torch.onnx.export(m, x, f, True)` must be one of the versions
whose fourth parameter is `export_params`. Where they do not agree the argument stays under its index alone. Defaults
are asked for later, with the version that is installed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Any, Final

from tensoraudit.extract.signatures_table import SIGNATURES
from tensoraudit.facts import ABSENT, Name, Unknown
from tensoraudit.facts.signature import Parameter, Signature

PACKAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "onnxruntime": ("onnxruntime", "onnxruntime-gpu", "onnxruntime-directml", "onnxruntime-silicon"),
    "tensorflow": ("tensorflow", "tensorflow-cpu", "tf-nightly", "tensorflow-macos"),
    "onnxconverter_common": ("onnxconverter-common",),
}
"""The distributions that bring a module, where their name is not the module's."""

_WORD: Final = re.compile(r"(?P<name>\*|\w+)(?:=(?P<defaults>[^@]+))?(?:@(?P<since>[\d.]+))?(?:@<(?P<until>[\d.]+))?")
_CHANGED: Final = re.compile(r"\|([\d.]+):")

_Release = tuple[int, ...]

_TENSOR: Final = "torch.Tensor()."
_BY_METHOD: Final = {name.removeprefix(_TENSOR): name for name in SIGNATURES if name.startswith(_TENSOR)}


@cache
def signatures(callee: str) -> tuple[Signature, ...]:
    """Return the signatures of `callee`, the oldest first; () when it is not in the table."""
    words = [_word(text) for text in SIGNATURES.get(callee, "").split()]
    if not words:
        return ()
    bounds = sorted({version for word in words for version in _versions(word)}, key=release)
    ranges = zip([None, *bounds], [*bounds, None], strict=True)
    return tuple(Signature(callee, tuple(_parameters(words, since)), since, until) for since, until in ranges)


def positional(callee: str, given: int = 0) -> tuple[str, ...]:
    """Return the parameter names of `callee` in order, "" where versions that take `given` positional arguments do not
    agree; () when it is not in the table.

    On a receiver that is not known, the tensor methods of the table are taken by their name: no other common class has
    a method called `index_put_` or `scatter_add_`.
    """
    if callee not in SIGNATURES:
        if not callee.startswith(("?.", "self.")):
            return ()
        callee = _BY_METHOD.get(callee.rpartition(".")[2], "")
    return _agreed(callee, given)


@cache
def _agreed(callee: str, given: int) -> tuple[str, ...]:
    names = list(dict.fromkeys(signature.positional for signature in signatures(callee)))
    if len(names) < 2:
        return names[0] if names else ()
    fitting = [each for each in names if len(each) >= given] or names
    columns = ({each[index] for each in fitting if index < len(each)} for index in range(max(map(len, fitting))))
    return tuple(column.pop() if len(column) == 1 else "" for column in columns)


def default(callee: str, names: Collection[str], version: str | None) -> Any:
    """Return what leaving out the parameter means that has one of `names`, in a version of the package.

    ABSENT when that version has no such parameter; Unknown when the table does not say, or when the version is not
    known (None) and versions differ.
    """
    versions = signatures(callee)
    if version is not None:
        versions = tuple(each for each in versions if _holds(each, version))
    found = [_default_of(each, names) for each in versions]
    if not found:
        return Unknown(f"the parameters of {callee} are not known")
    if any(value != found[0] or type(value) is not type(found[0]) for value in found):
        return Unknown(f"the default depends on the version of {callee.partition('.')[0]}")
    return found[0]


@cache
def by_name_only(callee: str, names: tuple[int | str, ...]) -> bool:
    """Tell whether no version of `callee` takes one of `names` by position: its signature is known to the end of what
    it takes so."""
    versions = signatures(callee)
    ends = all(any(not each.positional for each in version.parameters) for version in versions)
    taken = {name for version in versions for name in version.positional}
    return bool(versions) and ends and not any(type(name) is int or name in taken for name in names)


def packages(callee: str) -> tuple[str, ...]:
    """Return the distributions that may bring a callable."""
    root = callee.partition(".")[0]
    return PACKAGES.get(root, (root,))


def release(version: str) -> _Release:
    """Return the numbers of a version to compare by; a pre-release counts as its release, whose defaults it has."""
    numbers = re.match(r"\D*(\d+(?:\.\d+)*)", version)
    parts = [int(part) for part in numbers[1].split(".")] if numbers else []
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def _holds(signature: Signature, version: str) -> bool:
    own = release(version)
    return (signature.since is None or release(signature.since) <= own) and (
        signature.until is None or own < release(signature.until)
    )


def _default_of(signature: Signature, names: Collection[str]) -> Any:
    parameter = next((each for each in signature.parameters if each.name in names), None)
    if parameter is None:
        return ABSENT
    if parameter.default is ABSENT:
        return Unknown(f"what leaving out {parameter.name} means is not known")
    return parameter.default


def _word(text: str) -> re.Match[str]:
    match = _WORD.fullmatch(text)
    assert match is not None, text
    return match


def _versions(word: re.Match[str]) -> Iterator[str]:
    yield from (word[key] for key in ("since", "until") if word[key])
    yield from _CHANGED.findall(word["defaults"] or "")


def _parameters(words: list[re.Match[str]], since: str | None) -> Iterator[Parameter]:
    """Yield the parameters of the version `since`; None is the oldest."""
    own, by_name = release(since or ""), False
    for word in words:
        if (word["since"] and own < release(word["since"])) or (word["until"] and own >= release(word["until"])):
            continue
        if word["name"] == "*":
            by_name = True
        else:
            yield Parameter(word["name"], _value(word["defaults"], own), not by_name)


def _value(defaults: str | None, own: _Release) -> Any:
    if defaults is None:
        return ABSENT
    first, *changes = _CHANGED.split(defaults)
    value = first
    for since, later in zip(changes[::2], changes[1::2], strict=True):
        if own >= release(since):
            value = later
    try:
        return ast.literal_eval(value)
    except ValueError:
        return Name(value)
