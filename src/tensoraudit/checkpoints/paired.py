"""What a comparison of two checkpoints is made of: pairs of tensors, and what is known about each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from tensoraudit.checkpoints.schema import Observation, StoredCheckpoint

Status = Literal[
    "equal", "same_header", "permuted", "reshaped", "padded", "cast", "different", "missing", "extra", "unread"
]
By = Literal["map", "name", "prefix", "convention", "shape", "value", ""]
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
LAYOUTS: Final = frozenset({"pytorch", "tensorflow", "jax"})
"""Frameworks whose layers keep their weights in a layout of their own."""
NO_DIGESTS: Final = ("", "")


class PairedTensor(NamedTuple):
    """A tensor of the reference beside the candidate's, under their full names ("" where one side has none).

    `status`: "same_header" means that name, dtype and shape agree and that values were not asked for; "equal" that
    every element agrees. "permuted", "reshaped", "padded" and "cast" from headers alone are suspicions, and `note` says
    so; with values they are facts: apart from that the tensors are equal. `by` says what brought the two together.
    `permutation`: the candidate is `reference.transpose(permutation)`. `loss` of a cast: {"narrowing": bool} from
    headers; with values also "linf", "relative" (the largest |a - b| / |a|), "to_inf", "to_zero" and, of integers,
    "changed" (numbers of elements). `verdict` is the comparator's word on values that differ, `linf` the largest
    |a - b|, None where elements are NaN or infinite on one side alone. `digests` are the SHA-256 of both in the
    reference's layout, each in its own dtype.
    """

    reference: str
    candidate: str
    status: Status
    by: str = ""
    permutation: tuple[int, ...] = ()
    dtypes: tuple[str, str] = ("", "")
    shapes: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    loss: Mapping[str, Any] = NOTHING
    verdict: str = ""
    linf: float | None = None
    digests: tuple[str, str] = NO_DIGESTS
    note: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointDiff:
    """Two checkpoints, tensor by tensor: `pairs` in the order of the reference, extras last.

    `prefixes` are what was taken off the names of the reference and the candidate. `optimizer` are the differences of
    the optimisers and of the rest of the training state. `notes` are sentences about the comparison itself.
    """

    reference: StoredCheckpoint
    candidate: StoredCheckpoint
    pairs: tuple[PairedTensor, ...]
    prefixes: tuple[tuple[str, str], ...]
    optimizer: tuple[Observation, ...]
    notes: tuple[str, ...] = ()

    @property
    def one_layout(self) -> bool:
        """Whether a layer's weight has one layout on both sides: they are of one framework, and arrays of NumPy or the
        nodes of an ONNX graph could be of any."""
        return self.reference.framework == self.candidate.framework and self.reference.framework in LAYOUTS
