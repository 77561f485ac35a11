"""pytorch.training: one training step with activation checkpointing as written, and with it removed.

For a module in this process, without a worker:

    from tensoraudit.probes.pytorch.training import measure
    from tensoraudit.audit.training import rows_of
    rows = rows_of(measure(factory, inputs))        # [(metric, subject, value, detail), ...]

`factory` is a module, or a function that returns one (better: closures and generators are then made anew for each
step); `inputs` is what `sample_inputs()` may return: a tuple of arguments, or a dict by name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import torch

from tensoraudit.probes.protocol import JobUnsupported, Session
from tensoraudit.probes.pytorch.arguments import containers_of, flatten, signature_of
from tensoraudit.probes.pytorch.devices import device_of, pinned, seed_everything
from tensoraudit.probes.pytorch.loaded import Loaded, remember
from tensoraudit.probes.pytorch.model import open_model, read_input
from tensoraudit.probes.pytorch.tensors import to_leaf
from tensoraudit.probes.pytorch.training_compare import Pair
from tensoraudit.probes.pytorch.training_passes import measured
from tensoraudit.probes.pytorch.training_regions import Measured
from tensoraudit.probes.pytorch.training_step import Trainee
from tensoraudit.probes.pytorch.training_watch import Place

Progress = Callable[[str], None]


def training(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Measure on one input set; `rows` are finished, `pairs` are for the comparator, with tensor references. `regions`
    tells apart the lines that begin regions, `lines` what became of the lines in `params["lines"]`.

    A model that cannot take a training step is a row `training.status`. Raises JobFailed when the model cannot be
    loaded, JobUnsupported when the device is not there.
    """
    device, seed = device_of(params.get("device", "cpu")), int(params.get("seed", 0))
    with pinned(device.type):
        model = open_model(session, params["model"])
        leaves = read_input(session, params["inputs"])
        trainee = Trainee(model.loaded, model.signature, leaves, device=device, seed=seed)
        lines = [(path, line) for path, line in params.get("lines", ())]
        found = measured(trainee, session.progress, lines)
        if trainee.touched():
            session.cache.clear()  # the loaded model itself was touched: the next job loads it again
    return _plain(found, lambda pair: _sent(session, pair))


def measure(
    factory: Any,
    inputs: Any,
    *,
    device: str = "cpu",
    seed: int = 0,
    lines: Collection[Place] = (),
    progress: Progress = lambda text: None,
) -> dict[str, Any]:
    """Measure a module in this process; the same result as the job's, with arrays instead of references."""

    def make() -> Any:
        seed_everything(seed)
        return factory()

    own = isinstance(factory, torch.nn.Module)
    with pinned(device):
        loaded = Loaded(factory, factory.training, _cannot_copy) if own else remember(make)
        signature = signature_of(loaded.module)
        leaves, containers = _named(inputs, [each.name for each in signature.arguments])
        signature = replace(signature, containers=containers)
        found = measured(Trainee(loaded, signature, leaves, device=device_of(device), seed=seed), progress, lines)
    return _plain(found, vars)


def _cannot_copy() -> torch.nn.Module:
    raise JobUnsupported("the module cannot be copied: give the function that builds it")


def _named(inputs: Any, names: list[str]) -> tuple[dict[str, Any], dict[str, str]]:
    given = inputs[0] if isinstance(inputs, list) else inputs
    given = given if isinstance(given, (tuple, Mapping)) else (given,)
    by_name = dict(given) if isinstance(given, Mapping) else dict(zip(names, given))  # noqa: B905 - Python 3.9
    leaves = {flat: to_leaf(leaf) for name, value in by_name.items() for flat, leaf in flatten(value, name)}
    return leaves, dict(each for name, value in by_name.items() for each in containers_of(value, name))


def _plain(found: Measured, pair: Callable[[Pair], dict[str, Any]]) -> dict[str, Any]:
    """Return plain data: `regions` with rows and pairs of their own where they were measured alone."""
    regions = [{**vars(each), "found": _plain(each.found, pair)} for each in found.regions]
    return {
        "rows": found.rows,
        "pairs": [pair(each) for each in found.pairs],
        **({"regions": regions} if regions else {}),
        **({"lines": [vars(each) for each in found.lines]} if found.lines else {}),
    }


def _sent(session: Session, pair: Pair) -> dict[str, Any]:
    put = session.put
    return {
        **vars(pair),
        "reference": put(pair.reference),
        "candidate": put(pair.candidate),
        "repeat": None if pair.repeat is None else put(pair.repeat),
        "perturbed": [put(each) for each in pair.perturbed],
    }
