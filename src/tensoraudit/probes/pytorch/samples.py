"""Sample inputs that come with a model: `sample_inputs()` beside the factory, or an ExportedProgram's examples."""

from __future__ import annotations

from typing import Any

from tensoraudit.probes import samples as beside_factories
from tensoraudit.probes.calls import Signature
from tensoraudit.probes.pytorch.loaded import Loaded
from tensoraudit.probes.pytorch.tensors import to_leaf
from tensoraudit.probes.samples import Beside, Dynamic, Sample, by_position, containers, flat, own_samples

__all__ = ["Dynamic", "Sample", "containers", "dynamic_dims", "flat", "read_samples"]


def read_samples(loaded: Loaded, signature: Signature, attribute: str) -> list[Sample]:
    """Return the model's own samples by argument; none when it brings none.

    Raises JobFailed when the function fails or returns something that is no sample.
    """
    if loaded.program is not None and loaded.program.example_inputs is not None:
        args, kwargs = loaded.program.example_inputs
        return [{**by_position(tuple(args), signature, "the example inputs", to_leaf), **kwargs}]
    return own_samples(_beside(loaded, attribute), signature, to_leaf)


def _beside(loaded: Loaded, attribute: str) -> Beside:
    return Beside(loaded.home, loaded.factory, loaded.module, attribute, "pytorch")


def dynamic_dims(loaded: Loaded, samples: list[Sample], attribute: str) -> Dynamic:
    """Return the dynamic dimensions: declared, symbolic in an ExportedProgram, or different between the samples."""
    if loaded.program is not None:
        return _symbolic(loaded.program, samples)
    return beside_factories.dynamic_dims(_beside(loaded, attribute), samples)


def _symbolic(program: Any, samples: list[Sample]) -> Dynamic:
    inputs = set(program.graph_signature.user_inputs)
    nodes = [node for node in program.graph.nodes if node.op == "placeholder" and node.name in inputs]
    names = list(flat(samples[0])) if samples else [node.name for node in nodes]
    found: Dynamic = {}
    for name, node in zip(names, nodes):  # noqa: B905 - Python 3.9
        for axis, size in enumerate(getattr(node.meta.get("val"), "shape", ())):
            if not isinstance(size, int):
                found.setdefault(name, {})[str(axis)] = str(size)
    return found
