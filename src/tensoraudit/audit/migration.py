"""The ways from one framework to another: which converters exist, and how they chain.

A route is a path of hops; its name joins their tools, `tf2onnx+onnx2torch`. Each hop is one job of one worker and
leaves a model that the next one takes. A new converter is a row of `HOPS`, a name in `ROUTES`, and a file in `routes/`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from tensoraudit.artifacts.artifact import Artifact, Framework
from tensoraudit.audit.frameworks import FRAMEWORKS
from tensoraudit.errors import InputError


@dataclass(frozen=True, slots=True)
class Hop:
    """One converter. `framework` is the one whose worker runs it, by `job`: `export` writes an ONNX file, `convert`
    anything else. `packages` are what its interpreter needs beside that framework, as they are called on PyPI; any of
    several (`a|b`) will do."""

    tool: str
    framework: Framework
    job: Literal["export", "convert"]
    packages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Route:
    """A path of converters. `formats` are the artifacts that it starts from; empty where any of its framework do."""

    name: str
    hops: tuple[Hop, ...]
    formats: frozenset[str] = frozenset()

    def takes(self, artifact: Artifact) -> bool:
        """Whether the route starts from such an artifact."""
        return not self.formats or artifact.format in self.formats


HOPS = (
    Hop("torch_onnx_dynamo", "pytorch", "export", ("onnx", "onnxscript")),
    Hop("torch_onnx_torchscript", "pytorch", "export", ("onnx",)),
    Hop("tf2onnx", "tensorflow", "export", ("tf2onnx", "onnx")),
    Hop("tf2onnx_tflite", "tensorflow", "export", ("tf2onnx", "onnx")),
    Hop("jax2onnx", "jax", "export", ("jax2onnx", "onnx")),
    Hop("torch_export", "pytorch", "convert", ()),
    Hop("torchax", "jax", "convert", ("torchax", "torch")),
    Hop("onnx2torch", "pytorch", "convert", ("onnx2torch", "onnx")),
    Hop("onnx2tf", "tensorflow", "convert", ("onnx2tf", "onnx")),
    Hop("jax2tf", "jax", "convert", ("tensorflow|tensorflow-cpu",)),
    Hop("keras_save", "tensorflow", "convert", ("keras",)),
    Hop("keras_torch", "pytorch", "convert", ("keras",)),
    Hop("keras_jax", "jax", "convert", ("keras",)),
)
TOOLS: Mapping[str, Hop] = {hop.tool: hop for hop in HOPS}

KERAS_FILES = frozenset({"keras", "keras_h5"})
OBJECTS = frozenset({"python_object"})


def _route(name: str, formats: Collection[str] = ()) -> Route:
    return Route(name, tuple(TOOLS[tool] for tool in name.split("+")), frozenset(formats))


ROUTES: Mapping[tuple[str, str], tuple[Route, ...]] = {
    ("pytorch", "onnx"): (_route("torch_onnx_dynamo"), _route("torch_onnx_torchscript")),
    ("pytorch", "tensorflow"): (_route("torch_onnx_dynamo+onnx2tf"), _route("torch_export+torchax+jax2tf")),
    ("pytorch", "jax"): (_route("torch_export+torchax"),),
    ("tensorflow", "onnx"): (_route("tf2onnx"),),
    ("tensorflow", "pytorch"): (
        _route("keras_torch", KERAS_FILES),
        _route("keras_save+keras_torch", OBJECTS),
        _route("tf2onnx+onnx2torch"),
    ),
    ("tensorflow", "jax"): (
        _route("keras_jax", KERAS_FILES),
        _route("keras_save+keras_jax", OBJECTS),
        _route("tf2onnx+onnx2torch+torch_export+torchax"),
    ),
    ("jax", "onnx"): (_route("jax2onnx"),),
    ("jax", "tensorflow"): (_route("jax2tf"), _route("jax2onnx+onnx2tf")),
    ("jax", "pytorch"): (_route("jax2onnx+onnx2torch"),),
    ("onnx", "pytorch"): (_route("onnx2torch"),),
    ("onnx", "tensorflow"): (_route("onnx2tf"),),
    ("onnx", "jax"): (_route("onnx2torch+torch_export+torchax"),),
    ("tflite", "onnx"): (_route("tf2onnx_tflite"),),
    ("tflite", "pytorch"): (_route("tf2onnx_tflite+onnx2torch"),),
    ("tflite", "tensorflow"): (_route("tf2onnx_tflite+onnx2tf"),),
    ("tflite", "jax"): (_route("tf2onnx_tflite+onnx2torch+torch_export+torchax"),),
}
"""By the framework of the artifact and the target, best first."""


def routes(artifact: Artifact, target: str) -> tuple[Route, ...]:
    """The routes from an artifact to a target, best first."""
    return tuple(route for route in ROUTES.get((artifact.framework, target), ()) if route.takes(artifact))


def worker_of(hop: Hop, role: str, interpreters: Collection[str]) -> str:
    """The worker role of a hop: that of its framework, unless the user gave its tool an interpreter of its own."""
    return f"{role}:{hop.tool}" if hop.tool in interpreters else role


def check_route(artifact: Artifact, via: str | None, targets: Sequence[str]) -> None:
    """Refuse a route with an unknown tool, or one that leads from this artifact to none of the targets.

    Raises InputError.
    """
    for tool in via.split("+") if via else ():
        if tool not in TOOLS:
            near = get_close_matches(tool, TOOLS, n=1)
            remedy = f"Did you mean {near[0]}?" if near else f"There are {', '.join(TOOLS)}."
            raise InputError(f"no converter is called {tool!r}", where="--via", remedy=remedy)
    names = [route.name for target in targets for route in routes(artifact, target)]
    if via is None or via in names or not FRAMEWORKS[artifact.framework].can("run"):
        return
    leads = f"from {FRAMEWORKS[artifact.framework].title} to {' or '.join(targets)}"
    remedy = f"Use one of {', '.join(names)}, or leave the option out." if names else "Leave the option out."
    raise InputError(f"{via} does not lead {leads}", where="--via", remedy=remedy)
