"""Typed observations: one frozen dataclass per kind, and the store that indexes them. Knows no source of facts."""

from tensoraudit.facts.environment import Device, Package, Variable
from tensoraudit.facts.graph import Dim, Model, Node, Value
from tensoraudit.facts.measurement import Measurement
from tensoraudit.facts.python import Block, Call, ClassDef, Import, Name, Operation, Reference, Scope
from tensoraudit.facts.site import Side, Site
from tensoraudit.facts.tensor import Checkpoint, Tensor
from tensoraudit.facts.unknown import ABSENT, Unknown

Fact = (
    Call
    | Import
    | Reference
    | Operation
    | ClassDef
    | Scope
    | Model
    | Node
    | Value
    | Tensor
    | Checkpoint
    | Package
    | Variable
    | Device
    | Measurement
)

__all__ = [
    "ABSENT", "Block", "Call", "Checkpoint", "ClassDef", "Device", "Dim", "Fact", "Import", "Measurement", "Model",
    "Name", "Node", "Operation", "Package", "Reference", "Scope", "Side", "Site", "Tensor", "Unknown", "Value",
    "Variable",
]  # fmt: skip
