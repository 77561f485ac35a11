"""The base of our dispatch modes: listeners that see every operator of an eager run."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class EagerMode(TorchDispatchMode):  # type: ignore[misc]
    """A mode that never meets `torch.compile`, and so need not import it: that alone takes two seconds."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
