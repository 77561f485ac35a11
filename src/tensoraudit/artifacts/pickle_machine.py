"""The unpickler's stack, marks and memo, and what its opcodes want from outside of the pickle.

The memo is a list: picklers number its entries from 0, one after the other, and a list takes a tenth of what a dict
takes for each. Keys out of that order, which only hostile or hand-made pickles have, go into a dict.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensoraudit.artifacts.pickle_fetches import fetched
from tensoraudit.artifacts.pickle_nodes import Call, Global, Persistent, Wishes
from tensoraudit.artifacts.pickle_stream import Stream
from tensoraudit.errors import InputError

MAX_GLOBALS: Final = 10_000
"""Distinct globals; a pickled module of a large model has a few dozen."""
SMALLER: Final = "Save only the state_dict: torch.save(model.state_dict(), path)."

_MAX_NAME: Final = 200
_MAX_SCATTERED: Final = 1_000_000


class Machine:
    """What the opcodes of one pickle work on. `built` is called with every call that has got its state."""

    def __init__(self, wishes: Wishes, stream: Stream, most: int, built: Callable[[Call], None] | None) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: list[Any] = []
        self.scattered: dict[int, Any] = {}
        self.wishes, self.stream, self.built = wishes, stream, built
        self.view = stream.bounded()
        self.fetched = None if built is None else fetched(self.view[stream.at :], most)

    def push(self, value: Any) -> None:
        """Put a value on the stack."""
        self.stack.append(value)

    def pop(self) -> Any:
        """Take the topmost value off the stack."""
        return self.stack.pop()

    def pop_mark(self) -> list[Any]:
        """Take what was pushed since the last mark off the stack, and the mark."""
        at = self.marks.pop()
        values = self.stack[at:]
        del self.stack[at:]
        return values

    def at_mark(self) -> bool:
        """Tell whether nothing was pushed since the last mark."""
        return bool(self.marks) and self.marks[-1] == len(self.stack)

    def put(self, key: int) -> None:
        """Note the topmost value in the memo."""
        memo, value = self.memo, self.stack[-1]
        if key == len(memo):
            memo.append(value)
            if self.scattered:
                self.scattered.pop(key, None)
        elif 0 <= key < len(memo):
            memo[key] = value
        elif len(self.scattered) < _MAX_SCATTERED:
            self.scattered[key] = value
        else:
            raise ValueError(f"more than {_MAX_SCATTERED:,} keys of the memo out of order")

    def memoize(self) -> None:
        """Note the topmost value under the number of keys so far; only a place where the pickle cannot fetch it."""
        memo, kept = self.memo, self.fetched
        if self.scattered:
            self.put(len(memo) + len(self.scattered))
        elif kept is None or kept[len(memo)]:
            memo.append(self.stack[-1])
        else:
            memo.append(None)

    def get(self, key: int) -> None:
        """Put a value of the memo on the stack; the key is text, which may be written in ways that no pickler uses."""
        if not 0 <= key < len(self.memo):
            self.stack.append(self.scattered[key])
        elif self.fetched is None or self.fetched[key]:
            self.stack.append(self.memo[key])
        else:
            raise KeyError(key)

    def find(self, name: str) -> Global:
        """Note a global that the pickle wants to import."""
        name = name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}..."
        self.wishes.globals[name] = None
        if len(self.wishes.globals) > MAX_GLOBALS:
            raise InputError(f"holds a pickle of more than {MAX_GLOBALS:,} imports", remedy=SMALLER)
        return Global(name)

    def persist(self, id_: Any) -> None:
        """Put a persistent object on the stack, and note it."""
        self.wishes.persistent.append(Persistent(id_))
        self.push(self.wishes.persistent[-1])
