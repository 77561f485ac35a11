"""`onnxruntime.intermediates`: values inside the graph, all from one session, in chunks under a memory budget.

The values are added as outputs to a copy of the model in memory; the user's file and folder stay as they are. The
session does not optimise, so that no requested value is fused away: the numbers are those of the graph as written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tensoraudit.probes.fingerprint import fingerprint
from tensoraudit.probes.onnxruntime.forward import RunError, Values, outputs_of
from tensoraudit.probes.onnxruntime.graph import infer_types
from tensoraudit.probes.onnxruntime.model_file import dtype_name, file_key, folder_of, load_structure, shape_of
from tensoraudit.probes.onnxruntime.pairing import pair, pairing_notes, real_view, real_view_notes
from tensoraudit.probes.onnxruntime.session import Opened, open_bytes, settings_from
from tensoraudit.probes.onnxruntime.tensors import MismatchError, feed
from tensoraudit.probes.protocol import JobFailed, Session

CACHE = "onnxruntime.intermediates"
DEFAULT_BUDGET = 256 << 20
UNKNOWN_SHARE = 16
"""Where most sizes are unknown, a value counts as this fraction of the budget, so at most so many share a chunk."""

LEVEL = "disable"


def intermediates(params: dict[str, Any], session: Session) -> dict[str, Any]:
    """Run one sample and return the requested `values` in the order asked for.

    Returns {"values": {name: ref}, "unsupported": {name: reason}, "level", "chunks", "settings"}. A chunk holds at most
    `budget` bytes of values (256 MiB), or one value. `limit`: bytes above which no tensor is saved. `fingerprints`:
    True adds {"fingerprints": {name: print}} (see `fingerprint`) for all values, saved or not; without it nothing runs
    over the limit. Raises JobFailed for names that are not in the graph, for inputs that do not fit and for a model
    that does not run.
    """
    session.pack()
    wanted = list(dict.fromkeys(params["values"]))
    model = load_structure(params["path"], session)
    opened = _open(params, model, wanted, session)
    feeds, shapes, notes = _feeds(opened, params["inputs"], session)
    sizes = _sizes(model, shapes)
    budget = int(params.get("budget") or DEFAULT_BUDGET)
    total = sum(sizes.get(name, _guess(wanted, sizes, budget)) for name in wanted)
    kept = _Kept(session, saves=total <= params.get("limit", math.inf), prints=bool(params.get("fingerprints")))
    chunks = list(_chunks(wanted, sizes, budget)) if kept.saves or kept.prints else []
    for number, chunk in enumerate(chunks):
        session.progress(f"reading intermediate values, part {number + 1} of {len(chunks)}")
        kept.add(*_run(opened, chunk, feeds))
    result = {"values": {name: kept.refs[name] for name in wanted if name in kept.refs}, "level": LEVEL}
    if kept.prints:
        result["fingerprints"] = kept.fingerprints
    return {**result, "chunks": len(chunks), "unsupported": kept.unsupported, "settings": opened.settings, **notes}


class _Kept:
    """What remains of the values of all chunks."""

    def __init__(self, session: Session, *, saves: bool, prints: bool) -> None:
        self.refs: dict[str, Any] = {}
        self.fingerprints: dict[str, Any] = {}
        self.unsupported: dict[str, str] = {}
        self.saves, self.prints = saves, prints
        self._session = session

    def add(self, values: Values, unsupported: dict[str, str]) -> None:
        """Take in one chunk."""
        for name, (array, logical) in values.items():
            if self.prints:
                self.fingerprints[name] = {**(fingerprint(array) or {}), "shape": list(array.shape)}
            if self.saves:
                self.refs[name] = self._session.put(array, logical)
        self.unsupported.update(unsupported)


def _run(opened: Opened, chunk: list[str], feeds: dict[str, Any]) -> Any:
    try:
        return outputs_of(opened, chunk, feeds)
    except RunError as failure:
        raise failure.as_refusal() from None


def _open(params: dict[str, Any], model: Any, wanted: list[str], session: Session) -> Opened:
    """The session of the last job is kept for the same file when it has all values that are asked for."""
    key = (file_key(params["path"]), settings_from({**params, "level": LEVEL}))
    kept = session.cache.get(CACHE)
    if kept is None or kept[0] != key or not kept[1].issuperset(wanted):
        session.cache.pop(CACHE, None)  # free the old one before the new one needs its memory
        content = with_outputs(model, wanted)
        kept = (key, frozenset(wanted), open_bytes(content, folder_of(params["path"]), key[1]))
        session.cache[CACHE] = kept
    opened: Opened = kept[2]
    return opened


def with_outputs(model: Any, wanted: list[str]) -> bytes:
    """Return the model, serialised, with exactly the `wanted` values as outputs. Raises JobFailed for unknown names."""
    import onnx

    known = {name for node in model.graph.node for name in node.output if name}
    unknown = [name for name in wanted if name not in known]
    if unknown or not wanted:
        named = ", ".join(map(repr, unknown[:5])) or "nothing"
        raise JobFailed(f"No node of the main graph makes {named}", unknown=unknown)
    kept = list(model.graph.output)
    try:
        # Changed in place and put back: a copy of the message would hold all weights twice.
        declared = {value.name: value for value in (*kept, *model.graph.value_info)}
        del model.graph.output[:]
        model.graph.output.extend(declared.get(name) or onnx.ValueInfoProto(name=name) for name in wanted)
        content: bytes = model.SerializeToString()
    finally:
        del model.graph.output[:]
        model.graph.output.extend(kept)
    return content


def _feeds(
    opened: Opened, sample: dict[str, Any], session: Session
) -> tuple[dict[str, Any], dict[str, list[int]], dict[str, Any]]:
    """The values to feed, their shapes, and what to say about the pairing."""
    inputs = opened.runtime.get_inputs()
    try:
        pairing = pair([each.name for each in inputs], sample["arrays"])
        given = {each.name: sample["arrays"][pairing.arguments[each.name]] for each in inputs}
        fed = {each.name: real_view(each.name, given[each.name], each.type, each.shape) for each in inputs}
        feeds = {each.name: feed(each.name, each.type, fed[each.name], session) for each in inputs}
    except MismatchError as problem:
        raise JobFailed(f"The sample {sample['name']!r} does not fit the model: {problem}") from None
    shapes = {name: list(value.shape()) for name, value in feeds.items()}
    return feeds, shapes, {**pairing_notes(pairing), **real_view_notes(given, fed)}


def _sizes(model: Any, shapes: Mapping[str, list[int]]) -> dict[str, int]:
    """Bytes of every value whose size is known once the inputs have theirs."""
    sizes: dict[str, int] = {}
    for name, type_proto in infer_types(model, shapes).items():
        shape = shape_of(type_proto)
        known = [size for size in shape or () if isinstance(size, int)]
        if shape is not None and len(known) == len(shape):
            sizes[name] = _width(type_proto.tensor_type.elem_type) * math.prod(known)
    return sizes


def _width(element_type: int) -> int:
    name = dtype_name(element_type)
    return 4 if name == "bfloat16" else np.dtype(name).itemsize if name in np.sctypeDict else 8


def _chunks(wanted: list[str], sizes: Mapping[str, int], budget: int) -> Iterator[list[str]]:
    """Split the names, in order, so that no chunk goes over the budget; a value larger than it stands alone."""
    guess = _guess(wanted, sizes, budget)
    chunk: list[str] = []
    total = 0
    for name in wanted:
        size = sizes.get(name, guess)
        if chunk and total + size > budget:
            yield chunk
            chunk, total = [], 0
        chunk.append(name)
        total += size
    if chunk:
        yield chunk


def _guess(wanted: list[str], sizes: Mapping[str, int], budget: int) -> int:
    """Bytes to count for a value of unknown size: as much as the largest known one, if most are known."""
    known = [sizes[name] for name in wanted if name in sizes]
    share = budget // UNKNOWN_SHARE
    return min(share, max(known)) if known and 2 * len(known) >= len(wanted) else share
