"""What leads out of a file, while only the names of the project's modules are known.

Steps into another file of the project are written down (`pkg.build()[0].conv`) for `python_project` to follow; what
leads into a well-known library is settled here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

from tensoraudit.extract import known_results
from tensoraudit.extract.python_containers import taken
from tensoraudit.extract.python_origins import (
    LONGEST,
    MOST_CANDIDATES,
    UNKNOWN,
    Bound,
    Origins,
    attribute,
    bare,
    callee,
    unite,
)
from tensoraudit.extract.python_summary import FunctionSummary

_NEVER_LOCAL: Final = frozenset(sys.stdlib_module_names) | {
    "PIL", "accelerate", "cv2", "datasets", "deepspeed", "diffusers", "flax", "jax", "jaxlib", "keras",
    "lightning", "matplotlib", "numpy", "onnx", "onnxruntime", "optax", "pandas", "peft", "pytorch_lightning",
    "safetensors", "scipy", "sklearn", "tensorflow", "timm", "tokenizers", "torch", "torchaudio", "torchvision",
    "tqdm", "transformers", "triton", "wandb", "yaml",
}  # fmt: skip
"""Modules that an import means even where a file beside the script has the same name."""

_ROOT_END: Final = re.compile(r"[.(\[<]")


class Outline:
    """A project of which only the names of its modules are known. Without any, a text that stands alone."""

    def __init__(self, modules: Iterable[str] = ()) -> None:
        self.modules = frozenset(modules) - {""}
        self.roots = frozenset(module.partition(".")[0] for module in self.modules)

    def located(self, name: str, folder: str) -> str:
        """Return the module that an absolute import of `name` means in a script of the dotted `folder`: the one beside
        it where there is one and no well-known library has the name."""
        head = name.partition(".")[0]
        if not folder or head in _NEVER_LOCAL or head in self.roots or f"{folder}.{head}" not in self.modules:
            return name
        return f"{folder}.{name}"

    def owns(self, origin: str) -> bool:
        """Tell whether `origin` begins in the project."""
        return bool(self.roots) and _ROOT_END.split(origin, maxsplit=1)[0] in self.roots

    def canonical(self, origins: Origins) -> Origins:
        """Return what imported names stand for: here, themselves."""
        return origins

    def starred(self, module: str, stars: Sequence[str], name: str) -> Bound:
        """Return what `name` stands for in a module that binds it, if at all, by one of its star imports."""
        if not 0 < len(stars) < MOST_CANDIDATES:
            return Bound(UNKNOWN)
        return Bound(unite([*((f"{star}.{name}",) for star in stars), UNKNOWN]))

    def constant(self, path: str) -> Any:
        """Return the value of a constant of another file, else None."""
        return None

    def changes(self, path: str) -> bool:
        """Tell whether any file of the project sets the constant at `path` from outside."""
        return False

    def member(self, origin: str, name: str) -> Origins:
        """Return the origins of attribute `name` of a value."""
        if origin.endswith("()"):
            known = known_results.member(origin, name)
            if known is not None:
                return (known,)
        return (attribute(origin, name),)

    def item(self, origin: str, step: str) -> Origins:
        """Return the origins of an item of a value (see `python_origins.item`)."""
        if origin.endswith(("()", "]")) and self.owns(origin) and len(origin) < LONGEST:
            return (f"{origin}[{step}]",)
        return taken((origin,), step)

    def result(self, function: str, receivers: Origins) -> Origins:
        """Return the origins of what a call returns; `receivers` are those of the object before the dot."""
        known = settled(function, receivers)
        if known is None and self.owns(function) and len(function) < LONGEST:
            return (f"{bare(function)}()",)
        return known or made(function)

    def lineage(self, path: str) -> tuple[str, ...]:
        """Return the ancestors of a class of another file, nearest first."""
        return ()

    def method(self, path: str, name: str) -> FunctionSummary | None:
        """Return a method of a class of another file, inherited ones included."""
        return None

    def function(self, path: str) -> FunctionSummary | None:
        """Return a function of another file."""
        return None

    def parameters(self, name: str) -> tuple[str, ...]:
        """Return the names of the positional parameters of a callee of the project."""
        return ()


def settled(function: str, receivers: Origins) -> Origins | None:
    """Return the origins of what a well-known function returns, else None."""
    known = _settled(function)
    return (receivers or UNKNOWN) if known is RECEIVER else known


@lru_cache(1 << 14)
def _settled(function: str) -> Origins | None:
    name = callee(function)
    if name.startswith("?"):
        return UNKNOWN
    known = known_results.result(name)
    if known is not None:
        return (known,)
    return RECEIVER if known_results.returns_receiver(name) else None


RECEIVER: Final[Origins] = ("the receiver",)
"""Stands for whatever a method was called on."""


@lru_cache(1 << 14)
def made(function: str) -> Origins:
    """Return the origin of what a call of a name alone returns."""
    name = callee(function)
    return UNKNOWN if "()." in name or "[" in name else (f"{name}()",)
