"""What can be asked of each framework: one row, read by every step of an audit.

An ability that a framework lacks makes a smaller audit or a probe row that says `unsupported`, never a pass. A new
framework is a row here, its worker under `probes/`, and its routes in `routes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tensoraudit.artifacts.artifact import Framework as Name

Ability = Literal["describe", "run", "accepts", "oracle", "cuda", "trace", "gradients", "training", "resume", "export"]
"""What a worker's jobs can do. `describe`, `run`, `accepts`, `trace`, `gradients`, `training`, `resume` and `export`
are jobs, called `<role>.<ability>`; `oracle` means that `run` gives a double-precision run and perturbed draws, where
it can; `cuda` that it runs on that device."""


@dataclass(frozen=True, slots=True)
class Framework:
    """One framework as the audit sees it.

    `role` is its worker, "" where nothing runs. `source` and `target` are the names that rules use for it on either
    side (a target is named after its runtime). `modules` are the beginnings of the dotted names of its model classes.
    """

    title: str
    role: str
    source: str
    target: str
    extra: str = ""
    abilities: frozenset[Ability] = frozenset()
    modules: tuple[str, ...] = ()

    def can(self, ability: Ability) -> bool:
        """Whether the worker has this ability."""
        return ability in self.abilities

    def job(self, name: str) -> str:
        """The full name of a job: `pytorch.run`."""
        return f"{self.role}.{name}"

    def lacks(self, what: str) -> str:
        """The reason of an `unsupported` row."""
        return f"this version does not {what} {self.title} models"


KERAS = (
    *("keras.Model", "keras.Sequential", "keras.layers.", "keras.models."),
    *("tensorflow.keras.Model", "tensorflow.keras.Sequential", "tensorflow.keras.layers.", "tensorflow.keras.models."),
    *("tf_keras.Model", "tf_keras.Sequential", "tf_keras.layers.", "tensorflow.Module"),
)

FRAMEWORKS: Mapping[Name, Framework] = {
    "pytorch": Framework(
        title="PyTorch",
        role="pytorch",
        source="pytorch",
        target="pytorch",
        extra="tensoraudit[torch]",
        abilities=frozenset(
            ("describe", "run", "accepts", "oracle", "cuda", "trace", "gradients", "training", "resume", "export")
        ),
        modules=("torch.nn.",),
    ),
    "tensorflow": Framework(
        title="TensorFlow",
        role="tensorflow",
        source="tensorflow",
        target="tensorflow",
        extra="tensoraudit[tensorflow]",
        abilities=frozenset(("describe", "run", "accepts", "oracle", "trace", "gradients", "export")),
        modules=KERAS,
    ),
    "jax": Framework(
        title="JAX",
        role="jax",
        source="jax",
        target="jax",
        extra="tensoraudit[jax]",
        abilities=frozenset(("describe", "run", "accepts", "oracle", "cuda", "trace", "gradients", "resume", "export")),
        modules=("flax.linen.", "flax.nnx.", "equinox.Module", "haiku.Module"),
    ),
    "onnx": Framework(
        title="ONNX",
        role="onnxruntime",
        source="onnx",
        target="onnxruntime",
        extra="tensoraudit[onnx]",
        abilities=frozenset(("run", "oracle")),
    ),
    "tflite": Framework(
        title="TensorFlow Lite",
        role="litert",
        source="tflite",
        target="tflite",
        extra="tensoraudit[tflite]",
        abilities=frozenset(("describe", "run", "accepts", "trace")),
    ),
    "python": Framework(title="Python", role="", source="", target=""),
}
"""By the framework of an artifact."""


def framework_of(role: str) -> Framework:
    """The framework behind a worker's role (`pytorch`, `pytorch:target`)."""
    name = role.partition(":")[0]
    return next((each for each in FRAMEWORKS.values() if each.role == name), FRAMEWORKS["python"])


def rule_source(name: Name) -> str:
    """What rules call the framework that a model comes from; "" for bare source code."""
    return FRAMEWORKS[name].source


def rule_target(name: str) -> str:
    """What rules call a target of the command line: the runtime behind it."""
    return FRAMEWORKS[name].target if name in FRAMEWORKS else name  # type: ignore[index]
