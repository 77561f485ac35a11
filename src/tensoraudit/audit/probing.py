"""Small things that every step needs to speak with workers: arrays into references and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tensoraudit.audit.state import Run, Sample
from tensoraudit.probes.bfloat16 import BFLOAT16, bfloat16, is_bfloat16
from tensoraudit.probes.pool import Pool


def transfer(pool: Pool, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays as references that a worker can open, in their own dtypes; scalars stay `{"value": ...}`."""
    numbers = (np.ndarray, np.generic)  # arithmetic on a 0-d array gives a scalar
    return {name: _put(pool, v) if isinstance(v, numbers) else v for name, v in arrays.items()}


def _put(pool: Pool, value: Any) -> dict[str, Any]:
    return pool.put(bfloat16(value), BFLOAT16) if is_bfloat16(value) else pool.put(np.asarray(value))


def fetch(pool: Pool, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """A sample's arrays from references, in their own dtypes. Raises TypeError for one that would be widened."""
    return {name: value if "value" in value else _get(pool, name, value) for name, value in arrays.items()}


def _get(pool: Pool, name: str, reference: Mapping[str, Any]) -> Any:
    logical = reference.get("logical")
    if logical not in (None, BFLOAT16):
        raise TypeError(f"input {name} is {logical}, in which no inputs are made here: nothing was run")
    array = pool.get(reference)
    return array if logical is None else bfloat16(array)


def wire(pool: Pool, sample: Sample) -> dict[str, Any]:
    """A sample as a job takes it."""
    return {"name": sample.name, "arrays": transfer(pool, sample.arrays)}


def read_runs(result: Mapping[str, Any] | None) -> dict[str, Run]:
    """The runs of a `*.run` job, by sample name."""
    return {run["input"]: _read_run(run) for run in (result or {}).get("runs", ())}


def _read_run(run: Mapping[str, Any]) -> Run:
    error, again = run.get("error"), run.get("repeat_error")
    return Run(
        run["input"],
        run.get("outputs") or {},
        run.get("repeat") or {},
        run.get("oracle"),
        run.get("oracle_reason", ""),
        tuple(run.get("perturbed") or ()),
        _error_text(error) if error else "",
        error.get("source") if error else None,
        run.get("perturbed_by", ""),
        _error_text(again) if again else "",
        error.get("remedy", "") if error else "",
    )


def _error_text(error: Mapping[str, Any]) -> str:
    """What was raised; the names of our own exceptions, whose messages are whole sentences, tell nobody anything."""
    ours = error["type"] in {"JobFailed", "JobUnsupported"}
    return str(error["message"]) if ours else f"{error['type']}: {error['message']}"


def has_nan(pool: Pool, run: Run) -> bool:
    """Tell whether any output of a run holds NaN."""
    arrays = [pool.get(ref) for ref in run.outputs.values()]
    return any(bool(np.isnan(array).any()) for array in arrays if array.dtype.kind == "f")


def open_arrays(pool: Pool, refs: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Memory-mapped arrays of references; None stays None."""
    return None if refs is None else {name: pool.get(ref) for name, ref in refs.items()}


def logical_dtypes(refs: Mapping[str, Any]) -> dict[str, str]:
    """The framework's own dtype of each reference, where numpy has no twin (`bfloat16`)."""
    return {name: ref["logical"] for name, ref in refs.items() if ref.get("logical")}
