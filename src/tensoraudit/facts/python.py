"""Facts read from Python source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tensoraudit.facts.record import record
from tensoraudit.facts.site import Side, Site


@record
class Scope:
    """A module, class or function body. `name` is dotted from the module (`Net.forward`); a lambda has the name of the
    function that it stands in.

    Decorators are resolved names. `applied` are the calls that they make of the function or class: `f` of a bare `@f`,
    `f` with the arguments written in `@f(...)` and in `@partial(f, ...)`.
    """

    id: int
    kind: Literal["module", "class", "function", "lambda"]
    name: str
    parent: int | None
    decorators: tuple[str, ...]
    module: str
    at: Site
    applied: tuple[Call, ...] = ()


@record
class Block:
    """An enclosing with / loop / if / try of a fact. `names` are the resolved names in its head
    (the callee of a `with`, every name read by an `if` or loop test)."""

    kind: Literal["with", "loop", "if", "try"]
    names: tuple[str, ...]
    text: str
    at: Site


@record
class Call:
    """A call. `callee` is resolved through imports: `torch.load`; `torch.optim.Adam().step` for a method on a value
    made by a known call; `self.conv` on the instance; `?.half` when the receiver is unknown.

    `args`: positional arguments under their index (0, 1, ...) and under their parameter name where a signature is
    known; keywords under their name. A value is a Python constant, a tuple / dict of such, a `Name`, or `Unknown`.
    `splat` is true when `*args` or `**kwargs` are passed, so that a missing argument is unknown, not absent;
    `double_splat` when `**kwargs` are among them: `*args` alone fill no parameter that is passed by name only.
    `meanings` are all callees of an `ambiguous` call, `?` among them. `passes` tells where arguments come from that may
    be functions or objects of the project, as origins (`python_origins`) or the id of a lambda's scope, under the keys
    of `args`: one group of alternatives, for a container with known items (or a `partial`) a group for each item. An
    argument whose origin is not known has no entry. `part_of` is the dotted name that takes what is made
    here, alone or inside something larger: `self.block` for both calls in `self.block = Sequential(Dropout())`.
    `written` is the callee as the source writes it: `self.cache.add_`, `x.half`; a call or an item before a dot shows
    as `name().m`, `name[].m`, any other expression as `?.m`. `dropped` is true where the call is a statement
    of its own: nobody sees its result.
    """

    callee: str
    args: Mapping[int | str, Any]
    splat: bool
    scope: int
    blocks: tuple[Block, ...]
    order: int
    at: Site
    side: Side
    assigned: str | None = None
    ambiguous: bool = False
    written: str = ""
    double_splat: bool = False
    meanings: tuple[str, ...] = ()
    passes: Mapping[int | str, tuple[tuple[str | int, ...], ...]] | None = None
    part_of: str | None = None
    dropped: bool = False


@record
class Name:
    """The value of an argument that is a (resolved) dotted name: `torch.float16`, `self.training`, `x`."""

    name: str


@record
class Import:
    """An import of `module` (dotted, absolute), with the local names it binds."""

    module: str
    names: tuple[str, ...]
    scope: int
    at: Site
    side: Side


@record
class Reference:
    """A dotted name or operator that is read or written: `np.bool`, `torch.backends.cuda.matmul.allow_tf32`, `self.n`.

    `store` is "set", "augment" or "item" (subscript assignment) when it is written, None when read. `value` is what is
    assigned, as in `Call.args`. A name with several possible imports gives one Reference per meaning, all `ambiguous`;
    `meanings` are all of them.
    """

    name: str
    store: Literal["set", "augment", "item"] | None
    value: Any
    scope: int
    blocks: tuple[Block, ...]
    order: int
    at: Site
    side: Side
    ambiguous: bool = False
    meanings: tuple[str, ...] = ()


@record
class Operation:
    """A binary operator, comparison, or statement test: `op` is `//`, `%`, `>>`, `if`, `while`, `for`, `assert`.

    `operands` are values as in `Call.args`; `calls` the resolved callees anywhere inside the operands."""

    op: str
    operands: tuple[Any, ...]
    calls: tuple[str, ...]
    names: tuple[str, ...]
    scope: int
    blocks: tuple[Block, ...]
    order: int
    at: Site
    side: Side


@record
class ClassDef:
    """A class with its resolved bases and the names of its methods."""

    name: str
    bases: tuple[str, ...]
    methods: tuple[str, ...]
    scope: int
    at: Site
    side: Side
