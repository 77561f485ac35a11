"""Load a file of weights into a module that a factory made: strictly, and without running what a pickle wants."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from tensoraudit.probes.protocol import JobFailed

MAX_NAMES = 5


def load_weights(module: torch.nn.Module, path: str, *, key: str | None, trust: bool) -> None:
    """Load all weights, strictly. `key` is the dotted place of the state_dict inside the file.

    Raises JobFailed with the missing, unexpected and ill-shaped names.
    """
    state = _state(_read(path, trust), path, key)
    want = module.state_dict()
    problems = [
        _listed("lacks", sorted(set(want) - set(state))),
        _listed("has no place for", sorted(set(state) - set(want))),
        _listed(
            "has other shapes for",
            [_shapes(n, want[n], state[n]) for n in want if n in state and not _fit(want[n], state[n])],
        ),
    ]
    found = [text for text in problems if text]
    if found:
        raise JobFailed(
            f"{Path(path).name} does not fit the factory's {type(module).__name__}: " + "; ".join(_sentences(found)),
            remedy=_remedy(set(want), set(state)),
        )
    module.load_state_dict(dict(state), strict=True)


def _sentences(found: list[str]) -> list[str]:
    subject = {"lacks": "the file", "has no place for": "the model", "has other shapes for": "the file"}
    return [f"{subject[next(verb for verb in subject if text.startswith(verb))]} {text}" for text in found]


def _listed(verb: str, names: list[str]) -> str:
    rest = len(names) - MAX_NAMES
    return f"{verb} {', '.join(names[:MAX_NAMES])}{f' and {rest} more' if rest > 0 else ''}" if names else ""


def _fit(want: Any, have: Any) -> bool:
    return getattr(want, "shape", None) == getattr(have, "shape", None)


def _shapes(name: str, want: Any, have: Any) -> str:
    return f"{name} {list(getattr(have, 'shape', ()))} where the model wants {list(getattr(want, 'shape', ()))}"


def _remedy(want: set[str], have: set[str]) -> str:
    for prefix in ("module.", "_orig_mod.", "model."):
        if {name.removeprefix(prefix) if name.startswith(prefix) else name for name in have} == want:
            return (
                f"The names in the file start with {prefix!r}: strip that prefix, or name a factory that wraps the "
                "model in the same way."
            )
    return "Name the factory that makes exactly this model (its sizes and options must be those of the training run)."


def _read(path: str, trust: bool) -> Any:
    if not Path(path).is_file():
        raise JobFailed(f"{path}: no such file of weights", remedy="Check the path.")
    with Path(path).open("rb") as file:
        head = file.read(16)
    try:
        if head[8:9] == b"{":
            return _safetensors(path)
        return torch.load(path, map_location="cpu", weights_only=not trust)
    except UnpicklingError as problem:
        raise JobFailed(
            f"{Path(path).name} wants to import Python objects: {_first_line(problem)}",
            remedy="Pass --trust if you know where the file comes from, or save its state_dict alone.",
        ) from problem
    except ImportError:
        raise
    except Exception as problem:
        raise JobFailed(
            f"{Path(path).name} cannot be read as weights: {type(problem).__name__}: {_first_line(problem)}",
            remedy="Give a file that torch.save or safetensors wrote, whole.",
        ) from problem


def _safetensors(path: str) -> Any:
    try:
        from safetensors.torch import load_file
    except ImportError as problem:
        raise JobFailed(
            f"{Path(path).name} is a safetensors file, and the package safetensors is missing",
            remedy="Install safetensors where the PyTorch worker runs.",
        ) from problem
    return load_file(path)


def _first_line(problem: BaseException) -> str:
    return next(iter(str(problem).strip().splitlines()), type(problem).__name__)


def _is_state(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value) and all(isinstance(each, torch.Tensor) for each in value.values())


def _state(content: Any, path: str, key: str | None) -> Mapping[str, Any]:
    """The state_dict inside a checkpoint: at `key`, or the only one there is."""
    if key:
        return _at(content, path, key)
    if isinstance(content, torch.nn.Module):
        return content.state_dict()  # type: ignore[no-any-return]
    if isinstance(content, Mapping) and not _is_state(content):
        nested = [name for name, value in content.items() if _is_state(value)]
        if len(nested) == 1:
            return content[nested[0]]  # type: ignore[no-any-return]
        if nested:
            raise JobFailed(
                f"{Path(path).name} holds several state_dicts: {', '.join(map(str, nested))}",
                remedy="Save the one that belongs to the model into a file of its own.",
            )
    if isinstance(content, Mapping):
        return content
    raise JobFailed(
        f"{Path(path).name} holds a {type(content).__name__}, not a state_dict", remedy="Give a file of weights."
    )


def _at(content: Any, path: str, key: str) -> Mapping[str, Any]:
    value: Any = content
    for part in [key] if isinstance(content, Mapping) and key in content else key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise JobFailed(f"{Path(path).name} has nothing under {key!r}", remedy="Check the key of the state_dict.")
        value = value[part]
    return value  # type: ignore[no-any-return]
