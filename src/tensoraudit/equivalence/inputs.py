"""Input arrays: from a signature, or from the user's own sample at other sizes. Knows nothing of models or files.

Everything is drawn from a seed and the argument's name, so that adding an argument leaves the others as they were.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tensoraudit.equivalence.blocks import Array
from tensoraudit.equivalence.samples import edge_samples, perturb, redraw_sample, resize_sample
from tensoraudit.equivalence.sizes import is_batch, other_sizes, size_plan

__all__ = [
    "DTYPES",
    "InputSpec",
    "edge_samples",
    "generate",
    "is_batch",
    "other_sizes",
    "parse_input_spec",
    "perturb",
    "redraw_sample",
    "resize_sample",
    "role_of",
    "size_plan",
]

Role = Literal["image", "ids", "segment", "mask", "position"]
Dim = int | str

_FLOATS = ("float16", "float32", "float64")
_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = (*_FLOATS, *_INTEGERS, "bool")

# Greedy, so that a name may itself hold a colon ("serving_default_x:0").
_SPEC = re.compile(r"(?P<name>.+):(?P<dtype>[a-z]+[0-9]*)\[(?P<dims>[^\[\]]*)\](?:=(?P<value>.+))?")
_HOW = "write name:dtype[dims], for example 'x:float32[batch,3,224,224]' or 'sr:int64[]=16000'"

# Roles by the words of a name, first match wins; only for dtypes for which the role makes sense.
_ROLE_WORDS: tuple[tuple[Role, str, frozenset[str]], ...] = (
    ("mask", "iub", frozenset({"mask", "masks"})),
    ("segment", "iu", frozenset({"segment", "segments", "type", "types"})),
    ("position", "iu", frozenset({"position", "positions", "pos"})),
    ("ids", "iu", frozenset({"id", "ids", "token", "tokens", "index", "indices"})),
    ("image", "f", frozenset({"image", "images", "img", "imgs", "pixel", "pixels"})),
)


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One argument: `shape` holds sizes and names of dynamic dimensions; [low, high) bounds the values.

    `value` fixes every element. `role` is one of image, ids, segment, mask, position; None leaves it to the name
    (`role_of`).
    """

    name: str
    dtype: str
    shape: tuple[Dim, ...]
    low: float | None = None
    high: float | None = None
    value: float | int | bool | None = None
    role: Role | None = None


def parse_input_spec(text: str) -> InputSpec:
    """Read 'x:float32[batch,3,224,224]' or 'sr:int64[]=16000'.

    Raises ValueError that says what is wrong in which specification and what to write instead.
    """
    match = _SPEC.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"input {text!r} is no input specification; {_HOW}")
    name, dtype = match["name"].strip(), match["dtype"]
    if dtype not in DTYPES:
        raise ValueError(f"input {text!r}: unknown dtype {dtype!r}; use one of {', '.join(DTYPES)}")
    shape = tuple(_dim(part.strip(), text) for part in match["dims"].split(",")) if match["dims"].strip() else ()
    value = None if match["value"] is None else _value(match["value"].strip(), dtype, text)
    return InputSpec(name, dtype, shape, value=value)


def _dim(part: str, text: str) -> Dim:
    if part.isdecimal():
        return int(part)
    if part.isidentifier():
        return part
    raise ValueError(f"input {text!r}: {part!r} is neither a size nor a name of a dynamic dimension; {_HOW}")


def _value(raw: str, dtype: str, text: str) -> float | int | bool:
    if dtype == "bool":
        if raw.lower() not in ("true", "false", "0", "1"):
            raise ValueError(f"input {text!r}: {raw!r} is no bool; write true or false")
        return raw.lower() in ("true", "1")
    try:
        value: float | int = float(raw) if dtype in _FLOATS else int(raw)
    except ValueError:
        raise ValueError(f"input {text!r}: {raw!r} is no {dtype} value") from None
    if dtype in _INTEGERS and not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
        raise ValueError(f"input {text!r}: {raw} does not fit {dtype}")
    return value


def role_of(spec: InputSpec) -> Role | None:
    """Return the role that a specification states, or that its name and dtype suggest."""
    if spec.role is not None:
        return spec.role
    words = frozenset(re.split(r"[^a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", spec.name).lower()))
    kind = np.dtype(spec.dtype).kind
    return next((role for role, kinds, names in _ROLE_WORDS if kind in kinds and names & words), None)


def generate(specs: Sequence[InputSpec], sizes: Mapping[str, int], seed: int) -> dict[str, Array]:
    """Make one array per specification, with `sizes` for the dynamic dimensions.

    | dtype and role | values |
    | --- | --- |
    | float | standard normal; uniform in [low, high) if both are given |
    | float image | uniform in [0, 1) |
    | int ids, other int | uniform in [low or 0, high or 16): a guess of the vocabulary that embeddings survive |
    | int segment | 0 or 1 |
    | int position | 0, 1, 2, ... along the last axis, modulo high |
    | mask (int or bool) | 0 or 1 in runs: ones first, at least one in each row |
    | bool | either |

    Raises ValueError for a dynamic dimension without a size, or bounds that leave no value.
    """
    return {spec.name: _draw(spec, _shape(spec, sizes), _rng(seed, spec.name)) for spec in specs}


def _rng(seed: int, name: str) -> np.random.Generator:
    return np.random.default_rng((seed, zlib.crc32(name.encode())))


def _shape(spec: InputSpec, sizes: Mapping[str, int]) -> tuple[int, ...]:
    unknown = [dim for dim in spec.shape if isinstance(dim, str) and dim not in sizes]
    if unknown:
        raise ValueError(f"input {spec.name!r}: no size is given for the dynamic dimension {unknown[0]!r}")
    return tuple(sizes[dim] if isinstance(dim, str) else dim for dim in spec.shape)


def _draw(spec: InputSpec, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    if spec.value is not None:
        return np.full(shape, spec.value, dtype=spec.dtype)
    if spec.low is not None and spec.high is not None and not spec.low < spec.high:
        raise ValueError(f"input {spec.name!r}: no value lies in [{spec.low}, {spec.high})")
    return np.asarray(_draw_for(spec)(spec, shape, rng), dtype=spec.dtype)


_Draw = Callable[[InputSpec, tuple[int, ...], np.random.Generator], Array]


def _draw_for(spec: InputSpec) -> _Draw:
    kind = np.dtype(spec.dtype).kind
    return _DRAWS.get((kind, role_of(spec))) or _DRAWS[(kind, None)]


def _floats(spec: InputSpec, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    if spec.low is not None and spec.high is not None:
        return rng.uniform(spec.low, spec.high, shape)
    return rng.standard_normal(shape)


def _image(spec: InputSpec, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    return rng.uniform(spec.low if spec.low is not None else 0.0, spec.high if spec.high is not None else 1.0, shape)


def _integers(spec: InputSpec, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    return rng.integers(*_bounds(spec, 16), shape)


def _segments(spec: InputSpec, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    return rng.integers(*_bounds(spec, 2), shape)


def _bounds(spec: InputSpec, guess: int) -> tuple[int, int]:
    low = int(spec.low) if spec.low is not None else 0
    return low, int(spec.high) if spec.high is not None else low + guess


def _positions(spec: InputSpec, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    row = np.arange(shape[-1] if shape else 1)
    return np.broadcast_to(row if spec.high is None else row % int(spec.high), shape) if shape else row[0]


def _mask(spec: InputSpec, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Padding masks are runs of ones, then zeros; an empty row would make a softmax undefined."""
    if not shape:
        return np.ones(())
    lengths = rng.integers(1, max(shape[-1], 1) + 1, (*shape[:-1], 1))
    return np.arange(shape[-1]) < lengths


def _bools(spec: InputSpec, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    return rng.integers(0, 2, shape)


_DRAWS: dict[tuple[str, Role | None], _Draw] = {
    ("f", None): _floats,
    ("f", "image"): _image,
    ("i", None): _integers,
    ("u", None): _integers,
    ("i", "segment"): _segments,
    ("u", "segment"): _segments,
    ("i", "position"): _positions,
    ("u", "position"): _positions,
    ("i", "mask"): _mask,
    ("u", "mask"): _mask,
    ("b", "mask"): _mask,
    ("b", None): _bools,
}
