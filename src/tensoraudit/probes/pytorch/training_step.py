"""One training step of a model, always from the same first state and with the same random numbers."""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from tensoraudit.probes.protocol import JobError, JobUnsupported
from tensoraudit.probes.pytorch.arguments import Signature
from tensoraudit.probes.pytorch.checkpointing import removed, watched
from tensoraudit.probes.pytorch.devices import seed_everything
from tensoraudit.probes.pytorch.forward import forward_error
from tensoraudit.probes.pytorch.loaded import Loaded
from tensoraudit.probes.pytorch.memory import snapshot
from tensoraudit.probes.pytorch.outputs import name_outputs
from tensoraudit.probes.pytorch.perturbation import perturb_leaves, perturb_module
from tensoraudit.probes.pytorch.training_compiled import compiled_calls, compiled_modules
from tensoraudit.probes.pytorch.training_state import Surroundings, watch_original
from tensoraudit.probes.pytorch.training_watch import Place, Regions, lines_watched

Tensors = dict[str, torch.Tensor]
Inside = Callable[[torch.nn.Module], AbstractContextManager[Any]]


@dataclass
class Step:
    """What a step left behind. `gradients` holds None where there is none; `linked` says whether the loss had a graph.

    `before` holds the buffers at the start; `state` what modules remember besides buffers; `compiled` what ran
    through torch.compile.
    """

    regions: Regions
    outputs: Tensors = field(default_factory=dict)
    gradients: dict[str, torch.Tensor | None] = field(default_factory=dict)
    before: dict[str, Any] = field(default_factory=dict)
    buffers: Tensors = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    generators: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    compiled: list[str] = field(default_factory=list)
    error: str = ""
    linked: bool = True
    seconds: float = 0.0


class NoLoss(JobUnsupported):
    """The model gives nothing that a loss could be made of."""


class Trainee:
    """A model that can take the same step again and again.

    Every step runs on a copy of its own. The mode is the one that the model was handed over in, since it may keep some
    of its modules in eval mode on purpose; a model in eval mode is put into training mode. Inputs require no gradient,
    as training data does not, unless no parameter does: the reentrant variant of checkpointing depends on it.
    """

    def __init__(
        self, loaded: Loaded, signature: Signature, leaves: Mapping[str, Any], *, device: torch.device, seed: int
    ) -> None:
        self.device, self.seed = device, seed
        self._loaded, self._signature, self._leaves = loaded, signature, dict(leaves)
        self._surroundings, self._remade = Surroundings(loaded.module), False
        self.touched = watch_original(loaded.module)
        if loaded.program is not None:
            raise JobUnsupported("an ExportedProgram has no Python code, and so no checkpointing of its own")

    def compiled(self) -> list[str]:
        """Return the names of modules that are compiled as a whole."""
        return compiled_modules(self._loaded.module)

    def escaped(self) -> bool:
        """Tell whether a step on a copy reached the loaded model itself."""
        return not self._remade and self.touched()

    def remake(self) -> bool:
        """Build the model anew for every step from now on, instead of copying it; False when that cannot help."""
        if self._remade:
            return False
        try:
            self._loaded.reload()
        except JobError:
            return False
        self._remade = True
        return True

    def put_back(self) -> None:
        """Leave the surroundings of the model as they were found."""
        self._surroundings.put_back()

    def module(self) -> torch.nn.Module:
        """Return a model in its first state, with everything around it and all generators there too."""
        self._surroundings.put_back()
        module = self._loaded.reload() if self._remade else self._loaded.fresh(evaluate=False, share=False)
        module = module.to(self.device)
        if not module.training:
            module.train()
        seed_everything(self.seed)
        return module

    def step(
        self,
        *,
        remove: bool,
        own: Collection[type] = (),
        keep: Place | None = None,
        lines: Collection[Place] = (),
        autocast: bool = False,
        draw: int | None = None,
        inside: Inside | None = None,
    ) -> Step:
        """Take one step with checkpointing as written, or with every region made transparent but those at `keep`.

        `lines` are watched: which of them ran in forward, and again in a recomputation.
        `draw` numbers a run with inputs (or weights, where all inputs are integers) moved by one unit in the last
        place. `inside` makes a context for forward and backward from the module; only counts and time are then taken.
        What the model raises becomes the step's `error`.
        """
        module, leaves = self.module(), self._leaves
        if draw is not None:
            leaves, names = perturb_leaves(leaves, 1000 * (self.seed + 1) + draw)
            if not names:
                perturb_module(module, 1000 * (self.seed + 1) + draw)
        around = removed(module, own, keep) if remove else watched(module)
        with warnings.catch_warnings(record=True) as heard, around as regions, compiled_calls() as compiled:
            warnings.simplefilter("always")
            step = Step(regions, compiled=compiled)
            if inside is None:
                step.before = {name: buffer.detach().clone() for name, buffer in module.named_buffers()}
            with lines_watched(regions, lines):
                self._run(step, module, leaves, autocast, inside)
        step.warnings = tuple(dict.fromkeys(str(each.message) for each in heard))
        return step

    def _run(
        self, step: Step, module: torch.nn.Module, leaves: Mapping[str, Any], autocast: bool, inside: Inside | None
    ) -> None:
        wanted = trained(module)
        record = step if inside is None else None
        try:
            with torch.enable_grad(), inside(module) if inside else nullcontext():
                bound = self.bind(leaves, None if wanted else wanted)
                start = now(self.device)
                loss = self.loss(module, bound, record, autocast=autocast)
                step.linked = loss.requires_grad
                loss.backward()
                step.seconds = now(self.device) - start
        except NoLoss:
            raise
        except Exception as problem:
            error = forward_error(problem)
            step.error = f"{error['type']}: {error['message']}"
        if record:
            _record(step, module, wanted)

    def bind(self, leaves: Mapping[str, Any] | None = None, wanted: Tensors | None = None) -> Any:
        """Return a call on copies, because a forward may change its inputs in place.

        `wanted` gets the floating inputs as `input:NAME`, which then require gradients.
        """
        moved = {}
        for name, leaf in (self._leaves if leaves is None else leaves).items():
            moved[name] = leaf.detach().to(self.device, copy=True) if isinstance(leaf, torch.Tensor) else leaf
            if (
                wanted is not None
                and isinstance(leaf, torch.Tensor)
                and (leaf.is_floating_point() or leaf.is_complex())
            ):
                wanted[f"input:{name}"] = moved[name].requires_grad_()
                moved[name] = moved[name].clone()  # no leaf, so that it may be changed in place
        return self._signature.bind(moved)

    def loss(self, module: torch.nn.Module, bound: Any, step: Step | None = None, *, autocast: bool = False) -> Any:
        """Run forward and return the sum of all floating outputs, each element with a fixed random weight."""
        kind = self.device.type
        with torch.autocast(kind, dtype=torch.bfloat16) if autocast else nullcontext():
            outputs = name_outputs(module(*bound.args, **bound.kwargs))
        if step is not None:
            step.outputs = {name: each.detach().clone() for name, each in outputs.items()}
        return weighted_sum(outputs)


def trained(module: torch.nn.Module) -> Tensors:
    """Return the parameters that require a gradient, by name."""
    return {name: each for name, each in module.named_parameters() if each.requires_grad}


def weighted_sum(outputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Return the sum of all floating elements times fixed random numbers. Raises NoLoss where there are none.

    With equal weights the gradient through a softmax or a normalisation would be nearly zero, and hide what differs.
    """
    draws = torch.Generator().manual_seed(0)
    parts = []
    for each in outputs.values():
        real = torch.view_as_real(each) if each.is_complex() else each
        if real.is_floating_point():
            wide = real if real.dtype == torch.float64 else real.float()
            weights = torch.randn(wide.shape, generator=draws, dtype=wide.dtype).to(wide.device)
            parts.append((wide * weights).sum())
    if not parts:
        raise NoLoss("no output of the model is floating, so there is no loss to differentiate")
    return torch.stack([part.double() for part in parts]).sum() if len(parts) > 1 else parts[0]


def _record(step: Step, module: torch.nn.Module, wanted: Mapping[str, torch.Tensor]) -> None:
    step.gradients = {name: None if each.grad is None else _dense(each.grad) for name, each in wanted.items()}
    step.buffers = {name: buffer.detach().clone() for name, buffer in module.named_buffers()}
    step.state = {name: value for name, value in snapshot(module).items() if name not in step.buffers}
    step.generators = generators()


def _dense(gradient: torch.Tensor) -> torch.Tensor:
    plain = gradient.detach()
    return (plain if plain.layout is torch.strided else plain.to_dense()).clone()


def now(device: torch.device) -> float:
    """Return a clock in seconds: of the processor's work on the CPU, which other programs do not disturb; else wall."""
    if device.type == "cpu":
        return time.process_time()
    torch.cuda.synchronize(device)
    return time.perf_counter()


def generators() -> dict[str, Any]:
    """Return where the default generators stand."""
    states: dict[str, Any] = {"torch": torch.get_rng_state().numpy().tobytes()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states["torch.cuda"] = b"".join(state.numpy().tobytes() for state in torch.cuda.get_rng_state_all())
    numbers: Any = np.random.get_state()
    states["numpy"], states["random"] = (numbers[1].tobytes(), *numbers[2:]), random.getstate()
    return states
