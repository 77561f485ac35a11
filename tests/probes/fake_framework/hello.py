"""The greeting; FAKE_HELLO in the environment names the way in which it goes wrong."""

from __future__ import annotations

import ctypes
import os
import time
from typing import Any


def hello() -> dict[str, Any]:
    TROUBLE[os.environ.get("FAKE_HELLO", "none")]()
    return {"framework": "fake", "version": "1.0", "devices": [{"kind": "cpu"}], "packages": {}}


def _missing() -> None:
    import no_such_framework  # noqa: F401


def _ours() -> None:
    import tensoraudit.no_such_module  # noqa: F401


def _ours_in_part() -> None:
    from tensoraudit.probes.protocol import no_such_name  # noqa: F401


def _broken() -> None:
    raise OSError("libfake.so.1: cannot open shared object file")


def _leave() -> None:
    os._exit(7)


TROUBLE = {
    "none": lambda: None,
    "missing": _missing,
    "broken": _broken,
    "ours": _ours,
    "ours in part": _ours_in_part,
    "segfault": lambda: ctypes.string_at(0),
    "hang": lambda: time.sleep(60),
    "leave": _leave,
    "slow": lambda: time.sleep(5.0),
    "print": lambda: print('{"hello": {"framework": "forged"}}'),
}
