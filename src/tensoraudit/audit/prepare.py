"""First steps: which artifact this is, which workers it needs, what the model looks like, and its input sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tensoraudit.artifacts.artifact import Artifact
from tensoraudit.artifacts.identify import identify
from tensoraudit.artifacts.inputs import load_samples
from tensoraudit.artifacts.state import require_model
from tensoraudit.audit.frameworks import FRAMEWORKS, framework_of
from tensoraudit.audit.migration import check_route, routes, worker_of
from tensoraudit.audit.narrowing import narrow
from tensoraudit.audit.probing import fetch, has_nan, read_runs, transfer
from tensoraudit.audit.roles import source_role, target_role, two_interpreters
from tensoraudit.audit.rows import probe_row
from tensoraudit.audit.samples import (
    base_sizes,
    batch_labels,
    dynamic_dims,
    generated,
    make_samples,
    name_arrays,
    with_values,
)
from tensoraudit.audit.state import Audit, Side
from tensoraudit.audit.upgrade import check_sides, with_target
from tensoraudit.audit.variations import DRAWN, parse, resize
from tensoraudit.equivalence.inputs import InputSpec
from tensoraudit.errors import InputError
from tensoraudit.extract.onnx import graph_inputs
from tensoraudit.extract.python_frameworks import file_of, frameworks_of
from tensoraudit.facts import Measurement, Unknown
from tensoraudit.options import Options


def identify_artifacts(audit: Audit) -> Audit:
    """Read what the user handed over, from its bytes; refuse what cannot be audited. Raises InputError."""
    artifact = told(identify(audit.spec), audit.options.framework)
    if not held_back(artifact, audit.options):
        require_model(artifact, audit.options.model, audit.options.trust)
    audit = replace(audit, options=with_target(artifact, audit.options))
    against = told(identify(audit.against), audit.options.framework) if audit.against else None
    if against is None:
        check_route(artifact, audit.options.via, audit.options.target)
        check_sides(artifact, audit.options)
        return audit.add(artifact=artifact)
    require_model(against, audit.options.model, audit.options.trust)
    options = replace(audit.options, target=(against.framework,))
    return replace(audit, options=options).add(artifact=artifact, candidate_artifact=against)


def held_back(artifact: Artifact, options: Options) -> bool:
    """Whether a model is read but not run: a SavedModel whose operators use files does so whenever it runs."""
    return artifact.format == "saved_model" and bool(artifact.imports) and not options.trust


def told(artifact: Artifact, option: str | None) -> Artifact:
    """An object that is named, with the framework that its file imports, or that the option says.

    Raises InputError when its file imports several and the object uses more than one of them.
    """
    if artifact.format != "python_object":
        return artifact
    path = artifact.path or file_of(artifact.module or "")
    found = (option,) if option else frameworks_of(path, artifact.attribute or "") if path else ()
    if len(found) > 1:
        raise InputError(
            f"may be a model of {' or of '.join(found)}, for its file imports all of them",
            where=artifact.spec,
            remedy=f"Say which with --framework {found[0]}.",
        )
    return replace(artifact, framework=found[0]) if found else artifact  # type: ignore[arg-type]


def start_workers(audit: Audit) -> Audit:
    """Begin the imports of every framework that will be needed, so that they overlap with reading."""
    if audit.pool is None or audit.artifact is None or audit.artifact.framework == "python":
        return audit
    if held_back(audit.artifact, audit.options):
        return audit
    for role in needed_workers(audit.artifact, audit.options):
        audit.pool.start(role)
    return audit


def needed_workers(artifact: Artifact, options: Options) -> tuple[str, ...]:
    """The workers that an audit needs whatever happens: both sides, and those of the best route to each target."""
    best = [found[0] for target in options.target if (found := routes(artifact, target))]
    hops = [worker_of(hop, FRAMEWORKS[hop.framework].role, options.python) for route in best for hop in route.hops]
    ends = [target_role(target, artifact, options) for target in options.target]
    return tuple(dict.fromkeys((source_role(artifact.framework, options), *hops, *ends)))


def model_spec(artifact: Artifact, options: Any) -> dict[str, Any]:
    """The self-contained model description that the jobs of a framework take."""
    weights = None
    if artifact.format == "state_dict":
        weights, artifact = artifact, identify(options.model)
    return {
        "format": artifact.format,
        "path": str(artifact.path.resolve()) if artifact.path else None,
        "module": artifact.module,
        "attribute": artifact.attribute,
        "state_dict": str(weights.path.resolve()) if weights and weights.path else None,
        "state_key": weights.details.get("state_key") if weights else None,
        "trust": options.trust,
        "seed": options.seed,
        "code": [str(Path(path).resolve()) for path in options.code],
    }


def _absolute(artifact: Artifact) -> str:
    """Workers have a folder of their own, in which a relative path means nothing."""
    assert artifact.path is not None
    return str(artifact.path.resolve())


def side_of(artifact: Artifact, options: Any) -> Side:
    """How to run an artifact as it is."""
    framework = FRAMEWORKS[artifact.framework]
    params = {"path": _absolute(artifact)} if artifact.framework == "onnx" else {"model": model_spec(artifact, options)}
    return Side(framework.role, framework.job("run"), params, f"{framework.role}/cpu")


def describe_reference(audit: Audit) -> Audit:
    """Ask a worker (or the file's header) for arguments, own samples and parameters. Raises InputError when the model
    cannot be built for a reason that is the user's to mend."""
    assert audit.artifact is not None
    audit.progress("reading the model")
    if held_back(audit.artifact, audit.options):
        return _describe_held_back(audit)
    return DESCRIBERS.get(audit.artifact.framework, _describe_framework)(audit)


def _describe_held_back(audit: Audit) -> Audit:
    assert audit.artifact is not None
    names = list(audit.artifact.imports)
    uses = f"its operators use files ({', '.join(names)})"
    reason = f"not run: {uses}; if you trust where it comes from, add --trust"
    row = probe_row("reference.run", audit.artifact.framework, "cpu", "unsupported", reason, required=True)
    return audit.add(probes=(row,), measurements=(Measurement("artifact.file_operators", "model", names),))


def _describe_source(audit: Audit) -> Audit:
    reason = "source code only: name the model, as in model.py:make_model, to run it"
    return audit.add(probes=(probe_row("reference.run", "python", "cpu", "missing", reason, required=True),))


def _describe_framework(audit: Audit) -> Audit:
    assert audit.artifact is not None and audit.pool is not None
    framework = FRAMEWORKS[audit.artifact.framework]
    if not framework.can("describe"):
        reason = framework.lacks("run")
        row = probe_row("reference.describe", framework.role, "cpu", "unsupported", reason, required=True)
        return audit.add(probes=(row,))
    side = side_of(audit.artifact, audit.options)
    side = replace(side, role=source_role(audit.artifact.framework, audit.options))
    outcome = audit.pool.run(side.role, framework.job("describe"), dict(side.params))
    audit = audit.add(probes=(probe_row("reference.describe", side.role, "cpu", outcome, required=True),))
    if outcome.of_the_model.status in {"failed", "unsupported"}:
        details = (outcome.error or {}).get("details", {})
        raise InputError(outcome.reason, where=audit.spec, remedy=details.get("remedy", ""))
    if outcome.result is None:
        return audit
    return audit.add(
        description=outcome.result,
        reference=side,
        sources=tuple(map(Path, outcome.result.get("source_files", ()))),
        notes=tuple(outcome.result.get("notes", ())),
    )


def _describe_onnx(audit: Audit) -> Audit:
    assert audit.artifact is not None and audit.artifact.path is not None
    arguments = [
        {"name": value.name, "dtype": value.dtype, "shape": value.shape} for value in graph_inputs(audit.artifact.path)
    ]
    side = Side("onnxruntime", "onnxruntime.reference", {"path": _absolute(audit.artifact)}, "onnx.reference/cpu")
    if audit.candidate_artifact is not None or audit.options.target != ("onnx",) or two_interpreters(audit.options):
        # Between two versions of the runtime both sides run as users run them, optimised.
        level = {"level": "all"} if two_interpreters(audit.options) else {}
        role = source_role("onnx", audit.options)
        side = Side(role, "onnxruntime.run", {"path": _absolute(audit.artifact), **level}, "onnxruntime/cpu")
    return audit.add(description={"arguments": arguments, "samples": [], "dynamic": {}}, reference=side)


DESCRIBERS: Mapping[str, Callable[[Audit], Audit]] = {
    "onnx": _describe_onnx,
    "python": _describe_source,
}
"""What is not described by its own framework's worker."""


def choose_samples(audit: Audit) -> Audit:
    """Make the input sets. Raises InputError naming the option to add when nothing tells how the inputs look."""
    if audit.reference is None:
        return audit
    assert audit.pool is not None
    arguments = audit.description["arguments"]
    specs = read_specs(audit.options.input) or signature(arguments)
    check_names(specs, arguments, explicit=bool(audit.options.input))
    own = [load_samples(Path(path)) for path in audit.options.inputs]
    try:
        own = own or [fetch(audit.pool, sample["arrays"]) for sample in audit.description["samples"]]
        require_drawable([] if own else specs)
    except TypeError as problem:
        return _no_inputs(audit, str(problem))
    user = [with_values(each, specs) for each in name_arrays(own, arguments, specs)]
    if not user and not specs:
        names = ", ".join(argument["name"] for argument in arguments) or "x"
        example = (
            " ".join(f"--input '{a['name']}:float32[batch,3,224,224]'" for a in arguments[:1])
            or "--input 'x:float32[batch,8]'"
        )
        raise InputError(
            f"nothing tells which inputs the model takes (arguments: {names})",
            where=audit.spec,
            remedy=f"Add {example}, or --inputs samples.npz, or a function sample_inputs() beside the factory.",
        )
    from_user = bool(user)
    vocabulary = max(audit.description.get("embedding_sizes", {}).values(), default=None)
    user = user or [_first_accepted(audit, generated(specs, vocabulary, audit.options.seed))]
    user, narrowed = narrow(user, audit.description.get("canonical", {}))
    dynamic = dynamic_dims(user, specs, audit.description["dynamic"])
    framework = framework_of(audit.reference.role)
    asked = not dynamic and framework.can("accepts") and _may_vary(audit.candidate_artifact)
    implicit = asked and (batch := _implicit_batch(audit, user[0]))
    if implicit:
        dynamic = batch
    # An evaluator rounds less than a runtime: where inputs of nearly 0 leave no other measure, that would be its floor.
    edges = framework.can("oracle") and audit.reference.job == framework.job("run")
    samples = make_samples(user, dynamic, audit.options.seed, from_user=from_user, edges=edges)
    return audit.add(samples=samples, dynamic=dynamic, implicit_batch=bool(implicit), notes=tuple(narrowed))


def require_drawable(specs: Sequence[InputSpec]) -> None:
    """Raise TypeError when a signature asks for inputs in a dtype in which none are made."""
    other = next((spec for spec in specs if spec.dtype not in DRAWN), None)
    if other is not None:
        raise TypeError(f"input {other.name} is {other.dtype}, in which no inputs are made here: nothing was run")


def _no_inputs(audit: Audit, reason: str) -> Audit:
    """Inputs in a wider dtype would be those of another model: then nothing runs."""
    assert audit.reference is not None
    role = framework_of(audit.reference.role).role
    row = probe_row("reference.inputs", role, "cpu", "unsupported", reason, required=True)
    return audit.add(reference=None, probes=(row,))


def _first_accepted(audit: Audit, samples: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The first generated sample that the model runs; the first of all when it runs none, so that the error shows.

    ONNX Runtime also runs a window larger than what it slides over, which the definition gives no output for: a sample
    that the NumPy evaluator takes as well comes first.
    """
    assert audit.reference is not None
    tried = list(samples)
    if len(tried) == 1:
        return tried[0]
    framework = framework_of(audit.reference.role)
    witnesses = {framework.job("reference")} - {audit.reference.job} if framework.source == "onnx" else set()
    own = []
    for sample in tried:  # one after the other: the larger ones take long where the first will do
        if not _accepted(audit, audit.reference.job, sample):
            continue
        if all(_accepted(audit, job, sample) for job in witnesses):
            return sample
        own.append(sample)
    return (own or tried)[0]


def _accepted(audit: Audit, job: str, sample: Mapping[str, Any]) -> bool:
    assert audit.pool is not None and audit.reference is not None
    trial = {"name": "trial", "arrays": transfer(audit.pool, sample)}
    request = {**audit.reference.params, "inputs": [trial], "repeat": 1, "oracle": False, "perturbations": 0}
    run = read_runs(audit.pool.run(audit.reference.role, job, request).result).get("trial")
    return run is not None and not run.error and not has_nan(audit.pool, run)


def read_specs(texts: Sequence[str]) -> list[InputSpec]:
    """The `--input` options. Raises InputError."""
    try:
        return [parse(text) for text in texts]
    except ValueError as problem:
        raise InputError(str(problem), where="--input") from None


def signature(arguments: Sequence[Mapping[str, Any]]) -> list[InputSpec]:
    """Input specs from a file's own signature; empty when a shape or dtype is not in it."""
    known = [a for a in arguments if isinstance(a.get("dtype"), str) and isinstance(a.get("shape"), tuple | list)]
    if len(known) != len(arguments) or not arguments:
        return []
    return [
        InputSpec(a["name"], a["dtype"], tuple(_dim(a["name"], i, d) for i, d in enumerate(a["shape"]))) for a in known
    ]


def _dim(name: str, axis: int, dim: Any) -> int | str:
    """A dimension without a name of its own (`?` or none) gets one; the first counts as the batch."""
    if isinstance(dim, int):
        return dim
    if dim is None or isinstance(dim, Unknown) or not str(dim).isidentifier():
        return "batch" if axis == 0 else f"{name}_{axis}"
    return str(dim)


def check_names(specs: Sequence[InputSpec], arguments: Sequence[Mapping[str, Any]], *, explicit: bool) -> None:
    """Refuse an `--input` that names no argument of the model. Raises InputError."""
    names = {argument["name"] for argument in arguments}
    wrong = [spec.name for spec in specs if spec.name.split(".")[0] not in names]
    if explicit and names and wrong:
        raise InputError(
            f"the model has no argument {wrong[0]!r}",
            where="--input",
            remedy=f"Its arguments are {', '.join(sorted(names))}.",
        )


def _may_vary(candidate: Artifact | None) -> bool:
    """Whether a given candidate takes other batch sizes at all; a file with fixed sizes was made so on purpose."""
    if candidate is None or candidate.framework != "onnx" or candidate.path is None:
        return True
    shapes = [value.shape for value in graph_inputs(candidate.path)]
    return any(isinstance(shape, Unknown) or (shape and not isinstance(shape[0], int)) for shape in shapes)


def _implicit_batch(audit: Audit, sample: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Nobody declared a dynamic dimension: take the first one of all inputs as the batch if the reference itself
    accepts other sizes of it."""
    assert audit.pool is not None and audit.reference is not None
    tensors = {name: a for name, a in sample.items() if getattr(a, "ndim", 0) >= 2}
    if not tensors or len({array.shape[0] for array in tensors.values()}) != 1:
        return {}
    batch = {name: {"0": "batch"} for name in tensors}
    dims = {name: {0: "batch"} for name in tensors}
    trials = [
        {
            "name": f"batch={n}",
            "arrays": transfer(audit.pool, {**sample, **resize(tensors, dims, {"batch": n}, 0)}),
        }
        for n in (2, 5)
    ]
    role = audit.reference.role
    outcome = audit.pool.run(role, framework_of(role).job("accepts"), {**audit.reference.params, "inputs": trials})
    accepted = (outcome.result or {}).get("accepted", {})
    return batch if accepted and all(answer is True for answer in accepted.values()) else {}


def export_sample(audit: Audit) -> Any:
    """The sample to trace with: the user's first, unless a dynamic dimension has size 1 in it, which tracers freeze;
    then the first sample of other sizes without one."""
    first = audit.samples[0]
    candidates = [s for s in audit.samples if s.kind != "edge" and all(n > 1 for n in s.sizes.values())]
    if candidates or not audit.dynamic:
        return (candidates or [first])[0]
    tensors = {name: a for name, a in first.arrays.items() if hasattr(a, "ndim")}
    dims = {arg: {int(axis): label for axis, label in axes.items()} for arg, axes in audit.dynamic.items()}
    sizes = {label: size if size > 1 else 3 for label, size in base_sizes(first.arrays, dict(audit.dynamic)).items()}  # type: ignore[arg-type]
    return type(first)("export", {**first.arrays, **resize(tensors, dims, sizes, 0)}, "size", sizes)


__all__ = [
    "batch_labels",
    "choose_samples",
    "describe_reference",
    "export_sample",
    "identify_artifacts",
    "start_workers",
]
