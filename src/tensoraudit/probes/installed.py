"""`<role>.installed`: every distribution of the interpreter that a worker runs in. Standard library, Python 3.9."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from tensoraudit.probes.protocol import Session


def installed(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Return {"packages": {name: version}}, with Python itself as `python`; names as package indexes compare them.

    Of two distributions with one name the first on the path counts, which is the one that is imported.
    """
    found = {"python": platform.python_version()}
    for distribution in metadata.distributions():
        headers = distribution.metadata  # parsed anew each time it is asked for
        name = headers["Name"]
        if name:
            found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), str(headers["Version"]))
    return {"packages": dict(sorted(found.items()))}
