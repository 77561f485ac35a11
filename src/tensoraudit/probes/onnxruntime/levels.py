"""`onnxruntime.levels`: the same inputs at every optimisation level, so that a wrong fusion shows."""

from __future__ import annotations

from typing import Any

from tensoraudit.probes.onnxruntime.forward import run_sample
from tensoraudit.probes.onnxruntime.session import LEVELS, open_file, settings_from
from tensoraudit.probes.protocol import JobFailed, Session


def levels(params: dict[str, Any], session: Session) -> dict[str, Any]:
    """Run every sample once per level (or `repeat` times).

    Returns {"levels": {level: {"runs", "provider", "settings"} or {"runs": [], "error"}}}: a level at which the model
    does not load is an answer. Raises JobFailed when it loads at none.
    """
    answers: dict[str, dict[str, Any]] = {}
    failures: list[JobFailed] = []
    for level in LEVELS:
        session.progress(f"optimisation level {level}")
        try:
            answers[level] = _run_level(params, level, session)
        except JobFailed as problem:
            failures.append(problem)
            error = {**problem.details, "type": "SessionError", "message": problem.message}
            answers[level] = {"runs": [], "error": error}
    if len(failures) == len(LEVELS):
        raise failures[0]
    return {"levels": answers}


def _run_level(params: dict[str, Any], level: str, session: Session) -> dict[str, Any]:
    opened = open_file(params["path"], settings_from({**params, "level": level}), session)
    repeat = int(params.get("repeat") or 1)
    runs = [run_sample(opened, sample, repeat, session) for sample in params["inputs"]]
    return {"runs": runs, "provider": opened.provider, "settings": opened.settings}
