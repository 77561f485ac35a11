"""litert.run and litert.accepts: run a TensorFlow Lite model, twice each, and with moved inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensoraudit.probes.litert.describe import quantisation
from tensoraudit.probes.litert.program import CallError, Program, open_program, read_input
from tensoraudit.probes.litert.settings import check_device, settings
from tensoraudit.probes.protocol import Session
from tensoraudit.probes.ulp import perturb

NO_ORACLE = "TensorFlow Lite's kernels have no double precision"
NOTHING_MOVES = "no input is floating, and the weights of a TensorFlow Lite model are constants"
Row = dict[str, Any]


def run(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Run the model on every input set, each time from its first state.

    `xnnpack` (True): let that delegate compute what it can, as programs do by default; False keeps to the built-in
    kernels. `repeat`: 2 runs a second time. `perturbations`: so many draws with all floating inputs moved by one ULP;
    none where no input is floating. Quantised inputs and outputs are the stored integers; `quantisation` has their
    scales and zero points. A model that fails on an input set is data (`error`).

    Raises JobFailed when the model cannot be loaded, JobUnsupported for operators that the interpreter lacks.
    """
    check_device(params)
    session.pack()
    xnnpack = bool(params.get("xnnpack", True))
    program = open_program(session, params["model"], xnnpack=xnnpack)
    rows, changed = [], False
    for sample in params["inputs"]:
        leaves = read_input(session, sample)
        row = _row(program, leaves, params, session)
        rows.append({"input": sample["name"], **row})
        changed = changed or (row["error"] is None and program.remembers and _changes(program, leaves))
    return {
        "runs": rows,
        "settings": settings(program.delegated),
        "quantisation": quantisation(program),
        "state_changed": ["variables of the interpreter"] if changed else [],
    }


def _row(program: Program, leaves: Mapping[str, Any], params: Mapping[str, Any], session: Session) -> Row:
    row: Row = {"outputs": {}, "repeat": {}, "oracle": None, "oracle_reason": NO_ORACLE, "error": None}
    row.update({"perturbed": [], "perturbed_by": ""})
    try:
        row["outputs"] = _put(program.fresh().run(leaves), session)
        if params.get("repeat", 2) > 1:
            row["repeat"] = _put(program.fresh().run(leaves), session)
        row.update(_draws(program, leaves, params, session))
    except CallError as problem:
        row["error"] = {"type": type(problem).__name__, "message": str(problem), "source": None}
    return row


def _draws(program: Program, leaves: Mapping[str, Any], params: Mapping[str, Any], session: Session) -> Row:
    found: list[Any] = []
    for draw in range(int(params.get("perturbations", 3))):
        moved, names = perturb(leaves, 1000 * (int(params.get("seed", 0)) + 1) + draw)
        if not names:
            return {"perturbed_reason": NOTHING_MOVES}
        found.append(_put(program.fresh().run(moved), session))
    return {"perturbed": found, "perturbed_by": "inputs"}


def _put(outputs: Mapping[str, Any], session: Session) -> dict[str, Any]:
    return {name: session.put(array) for name, array in outputs.items()}


def _changes(program: Program, leaves: Mapping[str, Any]) -> bool:
    """Whether a second call of one interpreter gives other bytes than the first."""
    same = program.fresh()
    first, second = ({name: each.tobytes() for name, each in same.run(leaves).items()} for _ in range(2))
    return first != second


def accepts(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Say for each input set whether the model itself runs on it: True or the reason why not."""
    check_device(params)
    program = open_program(session, params["model"], xnnpack=bool(params.get("xnnpack", True)))
    accepted: dict[str, Any] = {}
    for sample in params["inputs"]:
        try:
            program.fresh().run(read_input(session, sample))
            accepted[sample["name"]] = True
        except CallError as problem:
            accepted[sample["name"]] = str(problem)
    return {"accepted": accepted}
