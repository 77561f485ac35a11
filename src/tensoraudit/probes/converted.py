"""What a `convert` job says of the model that it leaves. Shared by the workers: Python 3.9, standard library only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

Dtypes = Mapping[str, str]


@dataclass(frozen=True)
class Declared:
    """What a file says of its own inputs, outputs and weights, whatever runs it: dtypes by name, in order.

    Inputs and outputs have the names that the jobs give them, and `called` maps the file's own names of inputs to
    those. `largest` is the largest size of a dimension that may vary, {input: {axis: size}}. Empty where the file does
    not say.
    """

    inputs: Dtypes = field(default_factory=dict)
    outputs: Dtypes = field(default_factory=dict)
    weights: Dtypes = field(default_factory=dict)
    called: Mapping[str, str] = field(default_factory=dict)
    largest: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    def names(self, given: Sequence[str]) -> list[str]:
        """Return what the jobs call the inputs that have these names: by name, else by position."""
        if not self.inputs or set(given) <= set(self.inputs):
            return list(given)
        if set(given) <= set(self.called):
            return [self.called[name] for name in given]
        return list(self.inputs)

    def in_order(self, outputs: Dtypes) -> dict[str, str]:
        """Return the outputs in the file's order: backends of Keras differ in how they sort a dict."""
        return {**{name: outputs[name] for name in self.outputs if name in outputs}, **outputs}


def converted(
    params: Mapping[str, Any], inputs: Sequence[str], outputs: Sequence[str], versions: Sequence[str], **more: Any
) -> dict[str, Any]:
    """Return the result of a hop: `params` are what the jobs of the new model take.

    `inputs` are the names that these jobs take, in the order of the sample's leaves, and `outputs` those of the
    outputs, in the model's own order. `versions` are names of packages. Further keys replace the empty defaults.
    """
    return {
        "params": dict(params),
        "input_names": list(inputs),
        "output_names": list(outputs),
        "layouts": {"inputs": {}, "outputs": {}},
        "warnings": [],
        "options": {},
        "versions": {name: found for name in versions if (found := _version(name))},
        "dtype_changes": {},
        "dropped_outputs": [],
        **more,
    }


def changes(before: Dtypes, after: Dtypes) -> dict[str, list[str]]:
    """Return {name: [old, new]} of what stands in both with another dtype."""
    return {name: [dtype, after[name]] for name, dtype in before.items() if after.get(name, dtype) != dtype}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
