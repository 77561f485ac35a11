"""Save what goes into each Flax module of one run and what comes out, and the user's line that calls it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import jax

from tensoraudit.probes.jax.flax_layers import CELLS, settings
from tensoraudit.probes.jax.tensors import is_array, is_key
from tensoraudit.probes.protocol import Session
from tensoraudit.routes.source import frame_place

Row = dict[str, Any]


class Listener:
    """`rows` are the modules by path, in the order of their first calls; `budget` are bytes, 0 saves no tensors."""

    def __init__(self, session: Session, budget: int) -> None:
        self.rows: dict[str, Row] = {}
        self._last: dict[str, Any] = {}
        self._around: dict[str, str] = {}
        self._stack: list[str] = []
        self._session, self._left = session, budget

    @contextmanager
    def listening(self, paths: Mapping[type, Callable[[Any], str]]) -> Iterator[None]:
        """Follow the calls of linen modules, and of the nnx classes in `paths`, which tell the path of a module."""
        with ExitStack() as stack:
            if "flax.linen" in sys.modules:
                from flax import linen

                stack.enter_context(linen.intercept_methods(self._linen))
            for kind, path in paths.items():
                stack.enter_context(self._patched(kind, path))
            yield

    def _linen(self, inner: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
        if context.method_name != "__call__":
            return inner(*args, **kwargs)
        path = "/".join(context.module.path)
        return self._call(path, context.module, inner, args, kwargs)

    @contextmanager
    def _patched(self, kind: Any, path: Callable[[Any], str]) -> Iterator[None]:
        original = kind.__call__

        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            return self._call(path(module), module, lambda *a, **k: original(module, *a, **k), args, kwargs)

        kind.__call__ = call
        try:
            yield
        finally:
            kind.__call__ = original

    def _call(self, path: str, module: Any, inner: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        row = self.rows.setdefault(path, _row(path, module))
        row["calls"] += 1
        if row["calls"] == 1:
            row["source"] = frame_place()
            row["inputs"] = self._save((args, kwargs))
            self._around[path] = self._stack[-1] if self._stack else ""
        self._stack.append(path)
        try:
            result = inner(*args, **kwargs)
        finally:
            self._stack.pop()
        self._last[path] = result
        return result

    def finish(self) -> None:
        """Save the last outputs, and tell which modules hold no others."""
        for path, result in self._last.items():
            self.rows[path]["outputs"] = self._save(result)
        for path, row in self.rows.items():
            self._unroll(row, self.rows.get(self._around.get(path, "")))
            row["leaf"] = not any(other.startswith(f"{path}/" if path else "") for other in self.rows if other != path)

    @staticmethod
    def _unroll(row: Row, around: Row | None) -> None:
        """A cell inside a scan sees no values: it gets those of the layer that scans it."""
        if row["class"] in CELLS and not row["outputs"] and around is not None and around["class"] == "RNN":
            row["inputs"], row["outputs"] = around["inputs"], around["outputs"]
            row["config"] = {**row["config"], "go_backwards": bool(around["config"].get("reverse"))}

    def _save(self, value: Any) -> list[Row]:
        saved = []
        for each in jax.tree_util.tree_leaves(value):
            known = is_array(each) and not is_key(each) and not isinstance(each, jax.core.Tracer)
            if known and self._left >= each.nbytes:  # inside a scan there are no values
                self._left -= each.nbytes
                saved.append(self._session.put(each))
        return saved


def _row(path: str, module: Any) -> Row:
    kind = type(module).__name__
    return {
        **{"path": path, "class": kind, "config": settings(module), "source": None},
        **{"leaf": True, "calls": 0, "inputs": [], "outputs": []},
    }
