"""<framework>.coverage: which operators of a model a converter knows. The same job in every worker that converts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tensoraudit.probes.protocol import JobUnsupported, Session
from tensoraudit.routes.coverage import TOOLS


def coverage(params: Mapping[str, Any], session: Session) -> dict[str, Any]:
    """Return {"supported", "unsupported"} of `operators` for the converter `tool`, in the given order.

    `opsets` maps a domain to its version: for an ONNX file what it declares, else {"": the opset to write}. Raises
    JobUnsupported for an unknown tool and for one that is not installed.
    """
    tool = str(params["tool"])
    if tool not in TOOLS:
        raise JobUnsupported(f"nothing is known of the operators of {tool!r}")
    operators = list(dict.fromkeys(map(str, params["operators"])))
    opsets = {str(domain): int(version) for domain, version in (params.get("opsets") or {}).items()}
    try:
        known = TOOLS[tool](operators, opsets)
    except (ImportError, AttributeError) as problem:  # another version may keep its registry elsewhere
        raise JobUnsupported(f"the registry of {tool} cannot be read: {problem}") from problem
    return {
        "supported": [each for each in operators if each in known],
        "unsupported": [each for each in operators if each not in known],
    }
