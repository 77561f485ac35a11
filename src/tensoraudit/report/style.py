"""How a report is to look: decided once by the caller, given to every renderer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Colors = Literal["standard", "256", "truecolor", "windows"] | None


@dataclass(frozen=True, slots=True)
class Style:
    """`width` is in columns. `colors` is None for plain text, `unicode` whether box and block characters can be shown.

    `quiet` asks for verdict and findings only, `verbose` for full tracebacks and every compared tensor.
    """

    width: int = 100
    colors: Colors = None
    unicode: bool = True
    quiet: bool = False
    verbose: bool = False


DEFAULT: Final = Style()
