"""From a model spec to a loaded model with its own samples, kept warm in the session.

A spec is {"format", "path", "module", "attribute", "trust", "seed", "code"}: enough for a restarted worker to load the
model again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax

from tensoraudit.probes import user_code
from tensoraudit.probes.calls import Argument, Signature
from tensoraudit.probes.jax.devices import INITIAL_X64, device_of, seed_everything
from tensoraudit.probes.jax.keras_models import load_keras
from tensoraudit.probes.jax.kinds import FORMS, is_model, read_made
from tensoraudit.probes.jax.loaded import Loaded, Spec
from tensoraudit.probes.jax.replacement import with_weights
from tensoraudit.probes.jax.tensors import canonical, get, taken, to_leaf
from tensoraudit.probes.jax.torchax_models import load_torchax
from tensoraudit.probes.protocol import JobFailed, JobUnsupported, Session
from tensoraudit.probes.samples import Beside, Dynamic, Sample, containers, dynamic_dims, own_samples

FRAMEWORK = "jax"


@dataclass(frozen=True)
class Model:
    """A model as the jobs see it. `signature` knows the containers of the samples; `narrowed` says what JAX makes of
    64-bit inputs."""

    loaded: Loaded
    signature: Signature
    samples: tuple[Sample, ...]
    dynamic: Dynamic
    x64: bool
    narrowed: Mapping[str, str]


def open_model(session: Session, spec: Spec) -> Model:
    """Return the model of a spec, from the session's cache when it was loaded before and its file is unchanged.

    Raises JobFailed with what, where and what to do.
    """
    key = "jax.model " + json.dumps([dict(spec), _stamp(spec)], sort_keys=True)
    if key not in session.cache:
        for old in [name for name in session.cache if name.startswith("jax.")]:
            del session.cache[old]  # one model at a time: two large ones do not fit under the memory limit
        session.progress("loading the model")
        # The last model may have turned 64-bit types on; a file that did so is not run again when it is imported again.
        mark = f"x64 of {spec.get('path') or spec.get('module')}"
        jax.config.update("jax_enable_x64", session.cache.get(mark, INITIAL_X64))
        with jax.default_device(device_of("cpu")):
            session.cache[key] = _open(spec, session)
        session.cache[mark] = session.cache[key].x64
    model: Model = session.cache[key]
    jax.config.update("jax_enable_x64", model.x64)
    return model


def _stamp(spec: Spec) -> list[int] | None:
    file = Path(spec["path"]) if spec.get("path") else None
    return [file.stat().st_mtime_ns, file.stat().st_size] if file is not None and file.is_file() else None


def _open(spec: Spec, session: Session) -> Model:
    loader = LOADERS.get(spec["format"])
    if loader is None:
        raise JobUnsupported(f"JAX runs no model of the format {spec['format']!r}")
    user_code.add_code(spec.get("code") or ())
    seed_everything(int(spec.get("seed") or 0))
    loaded = loader(spec)
    if spec.get("weights"):
        loaded = with_weights(loaded, spec["weights"], session)
    beside = Beside(loaded.home, loaded.factory, loaded.made, str(spec.get("attribute") or ""), FRAMEWORK)
    samples = own_samples(beside, loaded.signature, to_leaf) if loaded.exported is None else []
    dynamic = dynamic_dims(beside, samples) if loaded.exported is None else {}
    known = {**loaded.signature.containers, **containers(samples)}
    x64 = bool(jax.config.jax_enable_x64)
    return Model(loaded, replace(loaded.signature, containers=known), tuple(samples), dynamic, x64, canonical())


def read_input(session: Session, sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flat leaves of a sample as jobs carry it, in the dtypes that JAX takes them in. Raises JobFailed."""
    return {name: taken(name, get(session, reference)) for name, reference in sample["arrays"].items()}


def _python_object(spec: Spec) -> Loaded:
    """Load `file.py:name` or `package.module:name`: a function without arguments that returns the model, or a model."""
    path = spec.get("path")
    home = user_code.import_file(path, FRAMEWORK) if path else user_code.import_module(str(spec["module"]), FRAMEWORK)
    what = Path(path).name if path else str(spec["module"])
    attribute = str(spec.get("attribute") or "")
    factory = user_code.find(home, attribute, what, is_model)
    made = factory if _is_instance(factory) else _build(factory, f"{what}:{attribute}")
    return replace(read_made(made, f"what {what}:{attribute} returns"), home=home, factory=factory)


def _is_instance(value: Any) -> bool:
    return isinstance(value, tuple) or (is_model(value) and not isinstance(value, type))


def _build(factory: Any, what: str) -> Any:
    if not callable(factory):
        raise JobFailed(
            f"{what} is a {type(factory).__name__}, not a model or a function that returns one",
            remedy=f"Name a function that returns {FORMS}.",
        )
    needed = user_code.needs(factory)
    if needed:
        raise JobFailed(
            f"{what} needs arguments: {', '.join(needed)}",
            remedy="Write a function without arguments that returns the model (this function, with its parameters), "
            "and name it.",
        )
    try:
        return factory()
    except (Exception, SystemExit) as problem:
        raise user_code.user_error(problem, f"{what} cannot build the model", FRAMEWORK) from problem


def _exported(spec: Spec) -> Loaded:
    """Load what `jax.export` serialized: a StableHLO program with its signature."""
    from jax import export

    name = Path(spec["path"]).name
    try:
        program = export.deserialize(bytearray(Path(spec["path"]).read_bytes()))
    except Exception as problem:
        raise JobFailed(
            f"{name} cannot be read by JAX {jax.__version__}: {type(problem).__name__}: {problem}",
            remedy="Export it again with this version of JAX, or name the version that wrote it (--python jax=PATH).",
        ) from problem
    if program.nr_devices != 1 or "cpu" not in program.platforms:
        raise JobUnsupported(
            f"{name} is exported for {program.nr_devices} device(s) of {', '.join(program.platforms)}, not for one CPU",
            remedy="Export it with platforms=('cpu', ...) on one device.",
        )
    _, kwargs = jax.tree_util.tree_unflatten(program.in_tree, program.in_avals)
    return Loaded(
        "exported",
        str(program.fun_name),
        lambda _, *args, **kwargs: program.call(*args, **kwargs),
        {},
        _exported_signature(program, kwargs),
        made=program,
        exported=program,
    )


def _exported_signature(program: Any, kwargs: Mapping[str, Any]) -> Signature:
    """The file has no names for positional arguments."""
    args, _ = jax.tree_util.tree_unflatten(program.in_tree, program.in_avals)
    positional = [Argument(f"args_{number}", True, "") for number in range(len(args))]
    named = [Argument(str(name), True, "", "keyword") for name in kwargs]
    trees = {**{each.name: tree for each, tree in zip(positional, args)}, **kwargs}  # noqa: B905 - Python 3.9
    return Signature((*positional, *named), containers([trees]))


LOADERS: Mapping[str, Callable[[Spec], Loaded]] = {
    "python_object": _python_object,
    "jax_export": _exported,
    "torchax": load_torchax,
    "keras": load_keras,
    "keras_h5": load_keras,
}
