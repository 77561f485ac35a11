"""What leads out of a file, when every file of the project has been summarised.

Each name is followed once, so that time is linear in the summaries; cycles of imports, functions that call each other
and long chains end in the name itself or in `?`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from tensoraudit.extract import known_results
from tensoraudit.extract.python_containers import taken
from tensoraudit.extract.python_origins import (
    UNKNOWN,
    Bound,
    Origins,
    bare,
    callee,
    each,
    has_positions,
    held,
    holding,
    is_path,
    unite,
)
from tensoraudit.extract.python_outline import Outline, made, settled
from tensoraudit.extract.python_summary import ClassSummary, FunctionSummary, Summary, relative_to

_DEEPEST: Final = 20
"""Steps from one name to the next before giving up: a longer chain of re-exports is generated code."""

MOST_ANCESTORS: Final = 40
"""Ancestors that a class keeps. Keeping all would be quadratic in a chain of generated classes."""

_MODULE: Final = "torch.nn.Module"
_ROOT: Final = re.compile(r"[^(\[<]*")
_STEP: Final = re.compile(r"(\(\))|\[([^\]]*)\]|\.([^.()\[\]]+)")


class Project(Outline):
    """A project whose files are all summarised."""

    def __init__(self, summaries: Iterable[Summary]) -> None:
        self.summaries: dict[str, Summary] = {}
        for summary in summaries:
            self.summaries.setdefault(summary.module, summary)
        super().__init__(self.summaries)
        self.functions: dict[str, FunctionSummary] = {}
        self.classes: dict[str, ClassSummary] = {}
        for summary in self.summaries.values():
            self.functions.update(summary.functions)
            self.classes.update(summary.classes)
        self._paths: dict[str, Origins | None] = {}
        self._followed: dict[str, Origins | None] = {}
        self._members: dict[str, Origins | None] = {}
        self._lineages: dict[str, tuple[str, ...]] = {}
        self._depth = 0
        changed = [path for summary in self.summaries.values() for path in summary.changed]
        self._changed = frozenset([*changed, *map(self._definition, changed)])

    def _once(
        self, memo: dict[str, Origins | None], key: str, work: Callable[[str], Origins], otherwise: Origins
    ) -> Origins:
        """Return `work(key)`, done once; `otherwise` while it is being done, and at the end of a long chain."""
        known = memo.get(key)
        if known is not None:
            return known
        if key in memo or self._depth > _DEEPEST:
            return otherwise
        memo[key] = None
        self._depth += 1
        memo[key] = found = work(key)
        self._depth -= 1
        return found

    # names

    def canonical(self, origins: Origins) -> Origins:
        """Return what imported names stand for: definitions under the module that defines them, or values."""
        if len(origins) == 1:
            return self._path(origins[0])
        return unite([self._path(origin) for origin in origins])

    def _path(self, path: str) -> Origins:
        if path.partition(".")[0] not in self.roots:
            return (path,)
        return self._once(self._paths, path, self._find, (path,))

    def _find(self, path: str) -> Origins:
        module, names = self._split(path)
        if not names:  # `from pkg import net` gives what pkg calls so, the module only otherwise
            package, _, last = module.rpartition(".")
            summary = self.summaries.get(package)
            if summary is None or last not in summary.exports:
                return (path,)
            module, names = package, [last]
        if not module:
            return (path,)
        origins = self._exported(module, names[0])
        for name in names[1:]:
            origins = unite([self.member(origin, name) for origin in origins])
        return origins

    def _split(self, path: str) -> tuple[str, list[str]]:
        """Return the longest module that `path` begins with ("" for none), and the names behind it."""
        names: list[str] = []
        module = path
        while module and module not in self.modules:
            module, _, last = module.rpartition(".")
            names.append(last)
        return module, names[::-1]

    def _exported(self, module: str, name: str) -> Origins:
        """Return what `name` of a module stands for; the dotted name itself where that is not known."""
        own = f"{module}.{name}"
        summary = self.summaries[module]
        origins = summary.exports.get(name)
        if origins is None:
            return (own,) if own in self.modules else self._through_stars(summary, name) or (own,)
        if origins == (own,):
            return origins
        return unite([(own,) if origin in ("?", "None") else (origin,) for origin in self.follow_all(origins)])

    def _through_stars(self, summary: Summary, name: str) -> Origins | None:
        path = self._giver(summary.module, summary.stars, name)
        if path is not None:
            return self._path(path)
        outside = [star for star in summary.stars if star not in self.summaries]
        if not outside or name.startswith("_"):
            return None
        return super().starred(summary.module, outside, name).origins

    def _giver(self, module: str, stars: Sequence[str], name: str) -> str | None:
        """Return the dotted name under which a star import gives `name`; the last one wins."""
        for star in reversed(stars):
            path = f"{star}.{name}"
            given = star in self.summaries and star != module and self._gives(star, name)
            if given and (name in self.summaries[star].exports or self._path(path) != (path,)):
                return path
        return None

    def _gives(self, module: str, name: str) -> bool:
        """Tell whether a star import of a module may give `name`."""
        public = self.summaries[module].public
        return name in public if public is not None else not name.startswith("_")

    def starred(self, module: str, stars: Sequence[str], name: str) -> Bound:
        """Return what `name` stands for in a module that binds it, if at all, by one of its star imports."""
        path = self._giver(module, stars, name)
        if path is not None:
            return Bound(self._path(path), self.constant(path))
        return super().starred(module, [star for star in stars if star not in self.summaries], name)

    def _definition(self, path: str) -> str:
        """Return the dotted name under which a constant is defined: re-exports are followed, values are not."""
        for _ in range(_DEEPEST):
            module, names = self._split(path)
            if not module or not names:
                break
            summary = self.summaries[module]
            origins = summary.exports.get(names[0])
            if origins is None:
                target = self._giver(module, summary.stars, names[0])
            else:
                target = origins[0] if len(origins) == 1 and is_path(origins[0]) else None
            if target is None or target == f"{module}.{names[0]}":
                break
            path = ".".join([target, *names[1:]])
        return path

    def constant(self, path: str) -> Any:
        """Return the value of a constant of a module or class, unless any file of the project sets it elsewhere."""
        if path.partition(".")[0] not in self.roots:
            return None
        path = self._definition(path)
        owner, _, name = path.rpartition(".")
        known = self.summaries.get(owner) or self.classes.get(owner)
        return None if known is None or path in self._changed else known.constants.get(name)

    def changes(self, path: str) -> bool:
        """Tell whether any file of the project sets the constant at `path` from outside."""
        return path in self._changed

    # values

    def follow_all(self, origins: Origins) -> Origins:
        """Follow the steps that a summary has written down."""
        if len(origins) == 1:
            return self._follow(origins[0])
        return unite([self._follow(origin) for origin in origins])

    def _follow(self, origin: str) -> Origins:
        if "<" in origin:
            return (self._follow_held(origin),)
        if not self.owns(origin):
            return (origin,)
        return self._once(self._followed, origin, self._walk, UNKNOWN)

    def _follow_held(self, origin: str) -> str:
        groups = [self.follow_all(group) for group in held(origin) or ()]
        if has_positions(origin):
            return holding(bare(origin), groups)
        return each(bare(origin), unite(groups) if groups else ())

    def _walk(self, origin: str) -> Origins:
        root = _ROOT.match(origin)
        assert root is not None
        origins, receivers = self._path(root.group()), UNKNOWN
        for step in _STEP.finditer(origin, root.end()):
            called, key, name = step.groups()
            before = origins
            if called:
                origins = unite([self.result(one, receivers) for one in before])
            elif name:
                origins, receivers = unite([self.member(one, name) for one in before]), before
            else:
                origins = unite([self.item(one, key) for one in before])
        return origins

    def item(self, origin: str, step: str) -> Origins:
        """Return the origins of an item of a value."""
        return taken((origin,), step)

    def member(self, origin: str, name: str) -> Origins:
        """Return the origins of attribute `name` of a value."""
        if origin in self.modules:
            return self._path(f"{origin}.{name}")
        if origin.endswith("()") and origin[:-2] in self.classes:
            return self._once(self._members, f"{origin}.{name}", self._instance_member, (f"{origin}.{name}",))
        return super().member(origin, name)

    def _instance_member(self, path: str) -> Origins:
        instance, _, name = path.rpartition(".")
        lineage = self.lineage(instance[:-2])
        for owner in self._family(instance[:-2]):
            method = owner.methods.get(name)
            if method is not None and not method.is_property:
                return (path,)
            origins = owner.attributes.get(name) if method is None else method.returned
            if origins is not None:
                found = self.follow_all(relative_to(instance, origins))
                return unite([(path,) if origin in ("?", "None") else (origin,) for origin in found])
        if name in known_results.MODULE_METHODS and _MODULE in lineage:
            return (f"{known_results.MODULE}.{name}",)
        return (path,)

    def result(self, function: str, receivers: Origins) -> Origins:
        """Return the origins of what a call returns."""
        known = settled(function, receivers)
        if known is not None:
            return known
        name = callee(function)
        summary = self.function(name)
        if summary is not None:
            head = name.rpartition(".")[0]
            found = self.follow_all(relative_to(head if head.endswith("()") else f"{head}()", summary.returned))
            return made(name) if found == UNKNOWN else found
        return made(name)

    def function(self, path: str) -> FunctionSummary | None:
        """Return the function or method that a callee names."""
        known = self.functions.get(path)
        if known is not None:
            return known
        head, _, name = path.rpartition(".")
        return self.method(head.removesuffix("()"), name)

    def method(self, path: str, name: str) -> FunctionSummary | None:
        """Return the method `name` of the class at `path`, inherited ones included; `forward` is what calling a module
        runs."""
        if path not in self.classes:
            return None
        names = ("__call__", "forward") if name == "__call__" and _MODULE in self.lineage(path) else (name,)
        found = (owner.methods.get(name) for name in names for owner in self._family(path))
        return next((method for method in found if method is not None), None)

    def _family(self, path: str) -> Sequence[ClassSummary]:
        return [self.classes[name] for name in (path, *self.lineage(path)) if name in self.classes]

    def lineage(self, path: str) -> tuple[str, ...]:
        """Return the dotted names of all known ancestors of a class, nearest first."""
        known = self._lineages.get(path)
        if known is not None or path not in self.classes:
            return known or ()
        self._lineages[path] = ()  # a class that inherits from itself is no program, but must not hang the reader
        direct = [origin for origin in map(self._follow_base, self.classes[path].bases) if is_path(origin)]
        self._depth += 1
        self._lineages[path] = found = ancestry(direct, self.lineage if self._depth < _DEEPEST else lambda _: ())
        self._depth -= 1
        return found

    def _follow_base(self, base: str) -> str:
        followed = self._follow(base)
        return followed[0] if len(followed) == 1 else base

    def parameters(self, name: str) -> tuple[str, ...]:
        """Return the names of the positional parameters of a callee of the project; () where they are not known."""
        if name in self.classes:
            method = self.method(name, "__init__")
            return (method.parameters if method is not None else self.classes[name].fields) or ()
        summary = self.function(name)
        if summary is None or (summary.on_instance and not name.rpartition(".")[0].endswith("()")):
            return ()
        return summary.parameters or ()


def ancestry(direct: Sequence[str], lineage: Callable[[str], tuple[str, ...]]) -> tuple[str, ...]:
    """Return the bases of a class and what `lineage` tells of each, with `torch.nn.Module` where one derives from
    it."""
    inherited = [ancestor for base in direct for ancestor in lineage(base)]
    ancestors = list(dict.fromkeys([*direct, *inherited]))[:MOST_ANCESTORS]
    if any(map(known_results.is_module_class, ancestors)) or _MODULE in inherited:
        ancestors.append(_MODULE)
    return tuple(dict.fromkeys(ancestors))
