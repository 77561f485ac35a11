"""Names of inputs as TensorFlow takes them: it changes others by itself, and then nobody knows which is which."""

from __future__ import annotations

import re
from collections.abc import Sequence


def plain_names(names: Sequence[str]) -> dict[str, str]:
    """Return names of letters, digits and underscores, all different."""
    found: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"\W", "_", name, flags=re.ASCII)
        plain = plain if plain[:1].isalpha() else f"input_{plain.strip('_')}"
        while plain in found.values():
            plain += "_"
        found[name] = plain
    return found
