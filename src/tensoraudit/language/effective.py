"""Arguments as the callee sees them: what is passed, else what leaving it out means in the installed version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensoraudit.extract.signatures import default, packages
from tensoraudit.facts import ABSENT, Call, Package
from tensoraudit.facts.store import FactStore, on_side
from tensoraudit.language.fields import argument


def effective(call: Call, keys: Sequence[int | str], store: FactStore) -> Any:
    """Return an argument of a call, or its default on the call's own side.

    ABSENT when that version has no such parameter; Unknown when the callee's signature or the version is not known and
    versions differ.
    """
    passed = argument(call, keys)
    if passed is not ABSENT:
        return passed
    return default(call.callee, [key for key in keys if isinstance(key, str)], _installed(call, store))


def _installed(call: Call, store: FactStore) -> str | None:
    found = store.keyed("package")
    versions = (
        package.version
        for name in packages(call.callee)
        for package in found.get(name, ())
        if isinstance(package, Package) and on_side(package, call.side)
    )
    return next(versions, None)
