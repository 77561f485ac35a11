"""Fill the `oracle` of the rows of a run: the file in double precision, evaluated in NumPy.

The evaluator is slow, so that it gets a budget of time; input sets for which there is none left have no oracle. Where
the rows come from ONNX Runtime it must also be an oracle of that: two implementations that differ by more than
rounding would make a floor under which everything passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tensoraudit.probes.onnxruntime.clock import Clock, OutOfTimeError
from tensoraudit.probes.onnxruntime.evaluator import (
    Evaluator,
    evaluator_of,
    load_model,
    short,
)
from tensoraudit.probes.onnxruntime.widen import NotAnOracle, widen
from tensoraudit.probes.protocol import JobError, Session

BUDGET = 60.0
"""Seconds for all input sets together."""

AGREE = 8.0
"""How many times its own error in float32 the evaluator's twin may lie from another implementation's results: the noise
limit of the comparator."""

UNIT = 0.25
"""The smallest scale of values on which rounding is judged, as the comparator does for sigmoids."""

EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23}
"""Spacing of the numbers at 1.0, by the dtypes that have a wider twin."""

Row = dict[str, Any]


def add_oracles(
    params: Mapping[str, Any], rows: Sequence[Row], session: Session, evaluator: Evaluator | None = None
) -> None:
    """Set `oracle` of each row to references of float64 outputs, or `oracle_reason` to why there is none.

    `params` are those of the job: `path`, `inputs`, and `budget` in seconds. `evaluator` is the one that the rows come
    from. Without it they come from ONNX Runtime, and the evaluator is asked in the file's own dtypes as well, to see
    that it computes the same.
    """
    path, samples = str(params["path"]), params["inputs"]
    open_rows = [(sample, row) for sample, row in zip(samples, rows) if not row["error"]]  # noqa: B905 - Python 3.9
    try:
        twin = _Twin(path, session, evaluator)
    except (NotAnOracle, JobError) as problem:
        for _, row in open_rows:
            row["oracle_reason"] = str(problem)
        return
    clock = Clock(float(params.get("budget") or BUDGET), "double precision in NumPy")
    for sample, row in open_rows:
        session.progress(f"double precision of {row['input']}")
        try:
            with clock.turn(sample):
                row["oracle"] = twin.run(sample, row)
        except (NotAnOracle, OutOfTimeError) as problem:
            row["oracle_reason"] = str(problem)
        except Exception as problem:
            row["oracle_reason"] = f"the NumPy evaluator cannot run the file in double precision: {short(problem)}"


class _Twin:
    """A file in double precision. Raises NotAnOracle or JobError where there is no such thing."""

    def __init__(self, path: str, session: Session, evaluator: Evaluator | None) -> None:
        self._session = session
        self._wide = evaluator_of(widen(load_model(path, session)))
        self._narrow = evaluator or evaluator_of(load_model(path, session))
        self._check = evaluator is None

    def run(self, sample: Mapping[str, Any], row: Row) -> dict[str, Any]:
        """Return references of the float64 outputs. Raises NotAnOracle, and whatever the evaluator raises."""
        feeds, _ = self._narrow.read(sample, self._session)
        outputs = self._wide.outputs({name: _widened(array) for name, array in feeds.items()})
        own = self._narrow.outputs(feeds) if self._check else {}
        found = {}
        for name, reference in row["outputs"].items():
            dtype = str(reference.get("logical") or reference["dtype"])
            array = self._session.get(reference)
            found[name] = _checked(name, outputs.get(name), array, dtype)
            if own and dtype in EPS:
                _agrees(name, found[name], array, np.asarray(own[name]), dtype)
        return {name: self._session.put(array) for name, array in found.items()}


def _widened(array: Any) -> Any:
    return array.astype(np.float64) if array.dtype.name in EPS else array


def _checked(name: str, wide: Any, narrow: Any, dtype: str) -> Any:
    """The output, when it is that of the reference in double precision. Raises NotAnOracle."""
    if not isinstance(wide, (np.ndarray, np.generic)) or wide.shape != narrow.shape:
        raise NotAnOracle("not a true oracle: in double precision the file gives other outputs or shapes")
    expected = "float64" if dtype in EPS else dtype
    if wide.dtype.name != expected:
        raise NotAnOracle(f"not a true oracle: {name} is {wide.dtype.name}")
    if expected == "float64" and (np.isfinite(narrow) & ~np.isfinite(wide)).any():
        raise NotAnOracle(f"not a true oracle: the NumPy evaluator gives NaN or infinity for numbers of {name}")
    return wide


def _agrees(name: str, wide: Any, runtime: Any, own: Any, dtype: str) -> None:
    """Raise NotAnOracle where the evaluator computes something else than the runtime whose results the row holds."""
    scale = max(_largest(wide), UNIT)
    error, mine = _largest(runtime - wide), _largest(own.astype(np.float64) - wide)
    if error > AGREE * max(mine, EPS[dtype] * scale):
        raise NotAnOracle(
            f"not an oracle: ONNX Runtime and the NumPy evaluator differ on {name} by more than rounding explains "
            f"({error:.2g} from double precision, where the evaluator's own {dtype} is {mine:.2g} away)"
        )


def _largest(array: Any) -> float:
    """The largest finite magnitude; 0 where there is none."""
    magnitudes = np.abs(array[np.isfinite(array)])
    return float(magnitudes.max()) if magnitudes.size else 0.0
