"""`onnxruntime.subgraph`: cut a piece out of a model, run it alone, and save it as a minimal reproducer.

Cutting is done here and not by `onnx.utils.extract_model`, which loses what control-flow bodies read from outside, and
needs a declared type for every value at the cut.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tensoraudit.probes.onnxruntime.forward import RunError, Values, outputs_of
from tensoraudit.probes.onnxruntime.graph import reads_of, topological
from tensoraudit.probes.onnxruntime.model_file import folder_of, load_structure
from tensoraudit.probes.onnxruntime.session import open_bytes, settings_from
from tensoraudit.probes.onnxruntime.tensors import BFLOAT16, MismatchError, feed
from tensoraudit.probes.protocol import JobFailed, Session

TOO_LARGE = 1 << 30
"""Bytes of weights above which a reproducer is not saved: it would not be minimal, and protobuf ends at 2 GiB."""

README = """\
A minimal reproducer cut from {name}: {nodes} node(s), {inputs} to {outputs}.
Run it: python -c "import numpy as n, onnxruntime as o; \
print(o.InferenceSession('model.onnx').run(None, dict(n.load('inputs.npz'))))"
{expectation}
"""


def subgraph(params: dict[str, Any], session: Session) -> dict[str, Any]:
    """Run the part of a model between `feeds` ({value: ref}) and `outputs` ([value]) once, unoptimised by default.

    With `save` a folder gets model.onnx, inputs.npz, expected.npz (when `expected` {value: ref} is given) and
    README.txt. Returns {"outputs": {name: ref}, "unsupported", "reproducer": folder or None, "nodes", "settings"}.
    Raises JobFailed when the outputs need more than the feeds give, or the piece does not run.
    """
    path, feeds, outputs = params["path"], params["feeds"], params["outputs"]
    model = load_structure(path, session)
    piece = cut(model, feeds, outputs)
    settings = settings_from({"level": "disable", **params})
    opened = open_bytes(piece.SerializeToString(), folder_of(path), settings)
    try:
        fed = {each.name: feed(each.name, each.type, feeds[each.name], session) for each in opened.runtime.get_inputs()}
        values, unsupported = outputs_of(opened, outputs, fed)
    except MismatchError as problem:
        raise JobFailed(f"The feeds do not fit the piece: {problem}") from None
    except RunError as failure:
        raise failure.as_refusal() from None
    result = {
        "outputs": {name: session.put(*value) for name, value in values.items()},
        "unsupported": unsupported,
        "nodes": [node.name or node.op_type for node in piece.graph.node],
        "settings": opened.settings,
        "reproducer": None,
    }
    if params.get("save"):
        _declare(piece, values)
        result["reproducer"] = save(piece, path, params, session)
    return result


def cut(model: Any, feeds: Mapping[str, Any], outputs: Iterable[str]) -> Any:
    """Return a ModelProto of the nodes that make `outputs` from `feeds` and weights. Raises JobFailed.

    Weights keep their external data, relative to the model's folder. Feeds become inputs of the references' own types.
    """
    import onnx

    graph = model.graph
    made = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    _check_known(outputs, made, feeds)
    chosen, read = _collect(graph, made, feeds, outputs)
    weights = [tensor for tensor in graph.initializer if tensor.name in read and tensor.name not in feeds]
    sparse = [each for each in graph.sparse_initializer if each.values.name in read and each.values.name not in feeds]
    available = {tensor.name for tensor in weights} | {each.values.name for each in sparse} | feeds.keys() | made.keys()
    missing = sorted(read - available)
    if missing:
        raise JobFailed(f"The piece also reads {', '.join(map(repr, missing[:5]))}: feed it too", missing=missing)
    inputs = [_input(name, ref) for name, ref in feeds.items() if name in read]
    order = [index for index in topological(graph.node) if index in chosen]
    piece = onnx.ModelProto(ir_version=model.ir_version, producer_name="tensoraudit", opset_import=model.opset_import)
    piece.functions.extend(model.functions)
    piece.graph.CopyFrom(
        onnx.GraphProto(
            name="reproducer",
            node=[graph.node[index] for index in order],
            input=inputs,
            output=[onnx.ValueInfoProto(name=name) for name in outputs],
            initializer=weights,
            sparse_initializer=sparse,
        )
    )
    return piece


def _check_known(outputs: Iterable[str], made: Mapping[str, int], feeds: Mapping[str, Any]) -> None:
    unknown = [name for name in outputs if name not in made or name in feeds]
    if unknown or not outputs:
        named = ", ".join(map(repr, unknown[:5])) or "nothing"
        raise JobFailed(f"No node of the main graph makes {named}", unknown=unknown)


def _collect(
    graph: Any, made: Mapping[str, int], feeds: Mapping[str, Any], outputs: Iterable[str]
) -> tuple[set[int], set[str]]:
    """The nodes behind the outputs, not going past the feeds, and all names that they read."""
    chosen: set[int] = set()
    read: set[str] = set()
    waiting = list(outputs)
    while waiting:
        index = made.get(waiting.pop())
        if index is None or index in chosen:
            continue
        chosen.add(index)
        names = reads_of(graph.node[index])
        read |= names
        waiting.extend(name for name in names if name not in feeds)
    return chosen, read


def _input(name: str, ref: Mapping[str, Any]) -> Any:
    from onnx import helper

    if ref.get("logical") == "bfloat16":
        return helper.make_tensor_value_info(name, BFLOAT16, ref["shape"])
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(ref["dtype"])), ref["shape"])


def _declare(piece: Any, values: Values) -> None:
    """Give the outputs the types they turned out to have, so that checkers accept the saved model."""
    for value in piece.graph.output:
        if value.name in values:
            array, logical = values[value.name]
            value.CopyFrom(_input(value.name, {"dtype": array.dtype.name, "shape": array.shape, "logical": logical}))


def save(piece: Any, path: str, params: dict[str, Any], session: Session) -> str | None:
    """Write the reproducer into `params["save"]`; a file is there whole or not at all. Returns the folder.

    Returns None when the weights are too large to be a small example. Raises JobFailed when the folder cannot be
    written.
    """
    folder = Path(params["save"])
    if _embed_weights(piece, path) > TOO_LARGE:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as draft:
            _write(Path(draft), piece, path, params, session)
            for file in sorted(Path(draft).iterdir()):
                shutil.move(str(file), str(folder / file.name))
    except OSError as problem:
        raise JobFailed(f"The reproducer cannot be written to {folder}: {problem.strerror}") from None
    return str(folder)


def _embed_weights(piece: Any, path: str) -> int:
    """Load external data into the piece and return the bytes of its weights; nothing is loaded when it is too much."""
    from onnx import external_data_helper

    base = folder_of(path)
    external = [tensor for tensor in piece.graph.initializer if tensor.external_data]
    lengths = (int(entry.value) for tensor in external for entry in tensor.external_data if entry.key == "length")
    size: int = sum(lengths) + piece.ByteSize()
    if size <= TOO_LARGE:
        for tensor in external:
            external_data_helper.load_external_data_for_tensor(tensor, base)
            tensor.data_location = type(tensor).DEFAULT
            del tensor.external_data[:]
    return size


def _write(folder: Path, piece: Any, path: str, params: dict[str, Any], session: Session) -> None:
    inputs = {value.name: np.asarray(session.get(params["feeds"][value.name])) for value in piece.graph.input}
    expected = {name: np.asarray(session.get(ref)) for name, ref in (params.get("expected") or {}).items()}
    (folder / "model.onnx").write_bytes(piece.SerializeToString())
    _write_arrays(folder / "inputs.npz", inputs)
    if expected:
        _write_arrays(folder / "expected.npz", expected)
    text = README.format(
        name=Path(path).name,
        nodes=len(piece.graph.node),
        inputs=", ".join(inputs) or "constants",
        outputs=", ".join(value.name for value in piece.graph.output),
        expectation="expected.npz holds what the reference computes from the same inputs."
        if expected
        else "The reference's own values were not recorded.",
    )
    (folder / "README.txt").write_text(text, encoding="utf-8")


def _write_arrays(path: Path, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    # Names of values may hold "/" or be called "file", which numpy.savez takes as its own argument.
    import zipfile

    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array, order="C"), allow_pickle=False)
