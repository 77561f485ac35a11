"""SavedModel folders as `Model`: a signature of the object graph, or the bare graph where that does not load."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from tensoraudit.probes.calls import Argument, Signature
from tensoraudit.probes.protocol import JobFailed
from tensoraudit.probes.tensorflow.frozen_graph import freeze, thaw
from tensoraudit.probes.tensorflow.model import Leaves, Model, require_names, specs_of

PREFERRED = ("serving_default", "serve")
"""Signatures in the order in which one is chosen; what servers call comes first."""
_INIT = "__saved_model_init_op"
"""Every SavedModel has it, and nobody calls it."""


def load_saved_model(spec: Mapping[str, Any]) -> Model:
    """Load a SavedModel folder and choose a signature. Raises JobFailed."""
    path = str(spec["path"])
    try:
        loaded = tf.saved_model.load(path)
    except Exception as problem:
        return _from_graph(path, problem)
    functions = dict(loaded.signatures)
    if functions:
        name = choose(list(functions))
        return _from_function(functions[name], loaded, _chosen(name, list(functions)))
    raise JobFailed(
        f"{Path(path).name} has no signature, so nothing tells how it is called",
        remedy="Save it with signatures (tf.saved_model.save(model, path, signatures=...)), or name its source.",
    )


def choose(names: list[str]) -> str:
    """Return the signature to audit: the one that servers call, else the first by name."""
    known = sorted(set(names) - {_INIT})
    return next((name for name in (*PREFERRED, *known) if name in known), _INIT)


def _chosen(name: str, names: list[str]) -> tuple[str, ...]:
    others = sorted(set(names) - {name, _INIT, *PREFERRED})
    return (f"signature {name} was audited; the SavedModel has {', '.join(others)} too",) if others else ()


def _from_function(function: Any, owner: Any, notes: tuple[str, ...]) -> Model:
    """A signature: a concrete function that takes tensors by name and returns a dict."""
    inputs = function.structured_input_signature[1]
    signature = Signature(tuple(Argument(name, True, "") for name in inputs))

    def call(leaves: Leaves) -> Any:
        require_names(list(inputs), leaves)
        outputs = function(**leaves)  # in the order of a protobuf map, which is another one in each process
        return dict(sorted(outputs.items())) if isinstance(outputs, dict) else outputs

    return Model(call, _Owner(owner, function), signature, specs_of(list(inputs.items())), notes=notes)


class _Owner:
    """What keeps a loaded SavedModel alive, and its variables: those of the object, or of the signature alone."""

    def __init__(self, loaded: Any, function: Any) -> None:
        self.loaded = loaded
        self.variables = list(getattr(loaded, "variables", None) or function.variables)


def _from_graph(path: str, problem: Exception) -> Model:
    """The graph and its signature, as TensorFlow 1 loads them."""
    graph = tf.Graph()
    try:
        with graph.as_default(), tf.compat.v1.Session(graph=graph) as session:
            meta = tf.compat.v1.saved_model.load(session, [tf.saved_model.SERVING], path)
            name = choose(list(meta.signature_def))
            signature = meta.signature_def[name]
            outputs = {key: info.name for key, info in sorted(signature.outputs.items())}  # a map has no order
            frozen = tf.compat.v1.graph_util.convert_variables_to_constants(
                session, graph.as_graph_def(), [each.partition(":")[0] for each in outputs.values()]
            )
    except Exception as second:
        raise JobFailed(
            f"{Path(path).name} cannot be loaded: {type(problem).__name__}: {_line(problem)}",
            remedy=f"Its graph alone does not load either ({_line(second)}); it may be damaged, or written by another "
            f"version than TensorFlow {tf.__version__}.",
        ) from problem
    inputs = {key: info.name for key, info in sorted(signature.inputs.items())}
    function = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(frozen, name=""), [])
    pruned = function.prune(list(inputs.values()), outputs)
    thawed = thaw(freeze(pruned), pruned, len(inputs))
    note = (
        f"the object graph of the SavedModel does not load in TensorFlow {tf.__version__} ({_line(problem)}): its "
        f"graph and signature {name} were run instead"
    )
    known = Signature(tuple(Argument(key, True, "") for key in inputs))
    specs = specs_of([(key, function.graph.get_tensor_by_name(tensor)) for key, tensor in inputs.items()])

    def call(leaves: Leaves) -> Any:
        require_names(list(inputs), leaves)
        return thawed(*(leaves[key] for key in inputs))

    return Model(call, pruned, known, specs, notes=(note, *_chosen(name, list(meta.signature_def))))


def _line(problem: Exception) -> str:
    return next(iter(str(problem).strip().splitlines()), type(problem).__name__)[:200]
