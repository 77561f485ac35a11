"""The input sets of an audit: the user's own first, then random draws, other sizes and edge values.

Nothing here runs a model; whether the reference accepts a size is asked later, by running it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from tensoraudit.audit.state import Sample
from tensoraudit.audit.variations import draw, drawable, edge_values, redraw, resize
from tensoraudit.equivalence.inputs import InputSpec, is_batch, other_sizes, role_of, size_plan
from tensoraudit.errors import InputError
from tensoraudit.probes.bfloat16 import BFLOAT16, bfloat16

Arrays = Mapping[str, Any]
Dynamic = dict[str, dict[str, str]]

BATCH_SIZES = (1, 2, 5)
RANDOM_DRAWS = 2
STRIDED = (64, 224)
"""Multiples of 32, the stride of most vision backbones."""


def name_arrays(
    samples: Sequence[Arrays], arguments: Sequence[Mapping[str, Any]], specs: Sequence[InputSpec]
) -> list[Arrays]:
    """Bind arrays to argument names: by name where all are known, else by the order of the arguments.

    Raises InputError when neither fits.
    """
    names = [spec.name for spec in specs] or [argument["name"] for argument in arguments]
    return [_bind(sample, names, arguments) for sample in samples]


def _bind(sample: Arrays, names: Sequence[str], arguments: Sequence[Mapping[str, Any]]) -> Arrays:
    roots = {name.split(".")[0] for name in (*names, *(argument["name"] for argument in arguments))}
    if not names or all(name.split(".")[0] in roots for name in sample):
        return sample
    if len(sample) > len(names):
        raise InputError(
            f"the sample holds {len(sample)} arrays ({', '.join(sample)}) but the model takes {len(names)} arguments",
            where="--inputs",
            remedy=f"Name the arrays after the arguments: {', '.join(names)}.",
        )
    return dict(zip(names, sample.values(), strict=False))


def with_values(sample: Arrays, specs: Sequence[InputSpec]) -> Arrays:
    """The sample with the values that `--input name:dtype[]=value` fixes, and what is bfloat16 by its specification.

    A NumPy file cannot say so itself: its arrays for such an argument are float32.
    """
    fixed = {spec.name: _fixed(spec) for spec in specs if spec.value is not None}
    narrow = {spec.name for spec in specs if spec.dtype == BFLOAT16}
    return {name: _narrowed(value) if name in narrow else value for name, value in {**sample, **fixed}.items()}


def _fixed(spec: InputSpec) -> np.ndarray[Any, Any]:
    return np.asarray(spec.value, dtype=drawable(spec).dtype)


def _narrowed(value: Any) -> Any:
    return bfloat16(value) if isinstance(value, np.ndarray) and value.dtype == np.float32 else value


def dynamic_dims(samples: Sequence[Arrays], specs: Sequence[InputSpec], known: Mapping[str, Any]) -> Dynamic:
    """Which dimensions vary: named in a spec, known from the artifact, or different between the samples."""
    dims: Dynamic = {name: dict(axes) for name, axes in known.items()}
    for spec in specs:
        for axis, size in enumerate(spec.shape):
            if isinstance(size, str):
                dims.setdefault(spec.name, {})[str(axis)] = size
    for name, axis in _differing(samples):
        dims.setdefault(name, {}).setdefault(str(axis), "batch" if axis == 0 else f"{name}_{axis}")
    return _share_names(dims, samples)


def _differing(samples: Sequence[Arrays]) -> Iterator[tuple[str, int]]:
    first = samples[0] if samples else {}
    for name, array in first.items():
        others = [sample[name] for sample in samples[1:] if name in sample]
        for axis in range(getattr(array, "ndim", 0)):
            if any(getattr(o, "ndim", 0) == array.ndim and o.shape[axis] != array.shape[axis] for o in others):
                yield name, axis


def _share_names(dims: Dynamic, samples: Sequence[Arrays]) -> Dynamic:
    """Give one name to generated dimensions that have equal sizes in all samples: they move together."""
    seen: dict[tuple[int, ...], str] = {}
    for name, axes in dims.items():
        for axis, label in axes.items():
            sizes = tuple(s[name].shape[int(axis)] for s in samples if hasattr(s.get(name), "shape"))
            if len(set(sizes)) > 1 and label == f"{name}_{axis}":
                axes[axis] = seen.setdefault(sizes, label)
    return dims


def base_sizes(sample: Arrays, dynamic: Dynamic) -> dict[str, int]:
    """The size of every dynamic dimension in a sample."""
    return {
        label: sample[name].shape[int(axis)]
        for name, axes in dynamic.items()
        for axis, label in axes.items()
        if hasattr(sample.get(name), "shape") and int(axis) < sample[name].ndim
    }


def generated(specs: Sequence[InputSpec], vocabulary: int | None, seed: int) -> Iterator[Arrays]:
    """First samples from a signature alone, to be tried in order; token ids stay within the vocabulary, if it is known.

    Small primes first, because they show most; then sizes that networks with strides accept.
    """
    bounded = [
        replace(spec, high=vocabulary) if vocabulary and role_of(drawable(spec)) == "ids" else spec for spec in specs
    ]
    fixed = [size for spec in specs for size in spec.shape if isinstance(size, int)]
    labels = list(dict.fromkeys(size for spec in specs for size in spec.shape if isinstance(size, str)))
    small = size_plan(labels, fixed)[0]
    lengths = [label for label in labels if not is_batch(label)]
    yield draw(bounded, small, seed)
    for base in STRIDED if lengths else ():
        yield draw(bounded, {**small, **{label: base + 32 * n for n, label in enumerate(lengths)}}, seed)


def changes(sizes: Mapping[str, int], batches: Iterable[str]) -> Iterator[dict[str, int]]:
    """Size changes to try, one dimension at a time: batch 1, 2 and an odd one; primes above and below, and the double,
    for any other. What the reference refuses is left out later."""
    batches = set(batches)
    for label, size in sizes.items():
        others = BATCH_SIZES if label in batches else (*other_sizes(size)[:2], 2 * size)
        yield from ({label: other} for other in others if other != size)


def batch_labels(dynamic: Dynamic) -> set[str]:
    """The dynamic dimensions that count as a batch: called so, or the first of every input."""
    labels = {label for axes in dynamic.values() for axis, label in axes.items() if axis == "0"}
    return {label for label in labels if is_batch(label)} or labels


def make_samples(
    user: Sequence[Arrays], dynamic: Dynamic, seed: int, *, from_user: bool, edges: bool = True
) -> tuple[Sample, ...]:
    """All input sets of an audit, the user's first.

    `edges` wants an oracle: zeros and tiny values do not move by one ULP in a way that says how large noise is.
    """
    first = user[0]
    sizes = base_sizes(first, dynamic)
    own = [
        Sample(
            f"{'sample' if from_user else 'random'}-{index}",
            arrays,
            _kind(from_user, base_sizes(arrays, dynamic), sizes),
            base_sizes(arrays, dynamic),
        )
        for index, arrays in enumerate(user)
    ]
    start = 0 if from_user else len(own)
    return (
        *own,
        *_random(first, sizes, seed, start),
        *_sizes(first, dynamic, sizes, seed),
        *(_edges(first, sizes) if edges else ()),
    )


def _kind(from_user: bool, own: dict[str, int], first: dict[str, int]) -> Literal["user", "random", "size"]:
    """A further sample of other sizes is a test of sizes, whoever gave it."""
    if own != first:
        return "size"
    return "user" if from_user else "random"


def _tensors(arrays: Arrays) -> dict[str, np.ndarray[Any, Any]]:
    return {name: array for name, array in arrays.items() if isinstance(array, np.ndarray)}


def _random(first: Arrays, sizes: dict[str, int], seed: int, start: int) -> Iterator[Sample]:
    for number in range(start, start + RANDOM_DRAWS):
        yield Sample(f"random-{number}", {**first, **redraw(_tensors(first), seed + 1 + number)}, "random", sizes)


def _sizes(first: Arrays, dynamic: Dynamic, sizes: dict[str, int], seed: int) -> Iterator[Sample]:
    for change in changes(sizes, batch_labels(dynamic)):
        name = ",".join(f"{label}={size}" for label, size in change.items())
        dims = {arg: {int(axis): label for axis, label in axes.items()} for arg, axes in dynamic.items()}
        arrays = resize(_tensors(first), dims, {**sizes, **change}, seed)
        yield Sample(name, {**first, **arrays}, "size", {**sizes, **change})


def _edges(first: Arrays, sizes: dict[str, int]) -> Iterator[Sample]:
    floats = {name: array for name, array in _tensors(first).items() if array.dtype.kind in "fc"}
    if floats:
        for name, arrays in edge_values(floats).items():
            yield Sample(f"edge-{name}", {**first, **arrays}, "edge", sizes)
