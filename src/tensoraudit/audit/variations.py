"""Variations of a sample in its own dtypes: bfloat16, which NumPy lacks, and complex numbers by their two parts.

The drawing itself knows NumPy's real dtypes only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tensoraudit.equivalence import inputs, samples
from tensoraudit.equivalence.inputs import DTYPES, InputSpec
from tensoraudit.probes.bfloat16 import BFLOAT16, bfloat16, is_bfloat16, stepped

Arrays = Mapping[str, Any]

DRAWN = (*DTYPES, BFLOAT16)
"""Dtypes that inputs can be drawn in from a signature alone."""


def redraw(sample: Arrays, seed: int) -> dict[str, Any]:
    """See `redraw_sample`."""
    return _varied(sample, lambda plain: samples.redraw_sample(plain, seed))


def resize(
    sample: Arrays, dims: Mapping[str, Mapping[Any, str]], sizes: Mapping[str, int], seed: int
) -> dict[str, Any]:
    """See `resize_sample`; an argument whose shape does not change is returned as it is."""
    return _varied(sample, lambda plain: samples.resize_sample(plain, dims, sizes, seed))


def edge_values(sample: Arrays) -> dict[str, dict[str, Any]]:
    """See `edge_samples`; of a complex number both parts change."""
    made = samples.edge_samples(_plain(sample))
    return {edge: _own(arrays, sample) for edge, arrays in made.items()}


def move(sample: Arrays, seed: int) -> dict[str, Any]:
    """See `perturb`; an element in bfloat16 moves by one unit of bfloat16, of a complex number both parts move."""
    plain = _plain(sample)
    moved = samples.perturb(plain, seed)
    narrow = {name: stepped(value, moved[name]) for name, value in plain.items() if is_bfloat16(value)}
    return _own({**moved, **narrow}, sample)


def draw(specs: Sequence[InputSpec], sizes: Mapping[str, int], seed: int) -> dict[str, Any]:
    """See `generate`."""
    narrow = {spec.name for spec in specs if spec.dtype == BFLOAT16}
    made = inputs.generate([drawable(spec) for spec in specs], sizes, seed)
    return {name: bfloat16(value) if name in narrow else value for name, value in made.items()}


def drawable(spec: InputSpec) -> InputSpec:
    """Return the specification in a dtype that NumPy has."""
    return replace(spec, dtype="float32") if spec.dtype == BFLOAT16 else spec


def parse(text: str) -> InputSpec:
    """See `parse_input_spec`, which knows NumPy's dtypes only. Raises ValueError."""
    name, colon, rest = text.strip().rpartition(f":{BFLOAT16}[")
    if not colon:
        return inputs.parse_input_spec(text)
    return replace(inputs.parse_input_spec(f"{name}:float32[{rest}"), dtype=BFLOAT16)


def _varied(sample: Arrays, vary: Callable[[Arrays], Arrays]) -> dict[str, Any]:
    plain = _plain(sample)
    made = vary(plain)
    same = {name: value for name, value in sample.items() if made[name] is plain[name]}
    return {**_own(made, sample), **same}


def _plain(sample: Arrays) -> dict[str, Any]:
    return {name: _parts(value) if _is_complex(value) else value for name, value in sample.items()}


def _own(made: Arrays, sample: Arrays) -> dict[str, Any]:
    """The arrays made, in the dtypes of the sample's."""
    return {name: _like(value, sample[name]) for name, value in made.items()}


def _like(made: Any, own: Any) -> Any:
    if _is_complex(own):
        return np.ascontiguousarray(made).view(own.dtype).reshape(made.shape[:-1])
    return bfloat16(made) if is_bfloat16(own) else made


def _is_complex(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "c"


def _parts(value: Any) -> Any:
    """Complex numbers as pairs of real ones, along a further last axis."""
    real = value.real.dtype
    return np.ascontiguousarray(value).reshape(-1).view(real).reshape(*value.shape, 2)
