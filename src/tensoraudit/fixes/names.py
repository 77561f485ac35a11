"""How a dotted name is written at a place in a file: by an import that is there, or by one that is added.

An existing name is used only where it surely is that import: bound once, at the top of the module and before its use. A
new one is bound only where nothing has its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import libcst as cst
from libcst.codemod import CodemodContext
from libcst.codemod.visitors import AddImportsVisitor, RemoveImportsVisitor
from libcst.helpers import get_full_name_for_node
from libcst.metadata import CodeRange, GlobalScope, ImportAssignment, MetadataWrapper, PositionProvider, ScopeProvider
from libcst.metadata.scope_provider import BaseAssignment, Scope

from tensoraudit.fixes.imports import dotted
from tensoraudit.fixes.verbs import CannotEdit, Dotted


@dataclass(frozen=True, slots=True)
class Imported:
    """A name that an import at the top of the module binds. `local` stands for `target`; `module` is what it loads."""

    local: str
    target: str
    module: str
    node: cst.Import | cst.ImportFrom
    alias: cst.ImportAlias


Import = tuple[str, str | None]
"""What to import: a module, and what from it."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a name is written: the expression, the import that it needs, and the one that it makes needless."""

    code: cst.BaseExpression
    needs: Import | None = None
    frees: Imported | None = None


@dataclass(slots=True)
class Names:
    """The names of one module, and the imports that edits need and no longer need: those of spellings that are used."""

    wrapper: MetadataWrapper
    keep_imports: bool = False
    imported: list[Imported] = field(init=False)
    moved: dict[cst.ImportFrom, dict[str, str]] = field(default_factory=dict)
    context: CodemodContext = field(default_factory=CodemodContext)
    _scopes: Mapping[cst.CSTNode, Scope | None] | None = None
    _places: Mapping[cst.CSTNode, CodeRange] = field(init=False)
    _added: dict[str, tuple[str, Import]] = field(default_factory=dict)
    """What the imports that may be added bind: local name to target and import."""

    def __post_init__(self) -> None:
        self.imported = list(_imported(self.wrapper.module))
        self._places = self.wrapper.resolve(PositionProvider)

    def spell(self, name: Dotted, at: cst.CSTNode) -> Spelling:
        """Return how `name` is written at a node. Raises CannotEdit when every name for it is taken."""
        return self._existing(name, at) or self._new(name, at, whole="." not in name.module)

    def rename(self, name: Dotted, call: cst.Call, calls: Sequence[cst.CSTNode]) -> Spelling:
        """Return the function of a call under its new name, in the style of the old. `calls` are all calls that get
        this name. Raises CannotEdit."""
        head = self._head(call)
        if head is None:
            raise CannotEdit("what is called is not written as an imported name")
        if isinstance(call.func, cst.Name) and self._moves(head, name, call, calls):
            return Spelling(call.func)
        if isinstance(call.func, cst.Attribute) and name.module == head.target:
            return Spelling(dotted(head.local + name.name.removeprefix(head.target)))
        found = self._existing(name, call) or self._beside(head, name, call)
        found = found or self._new(name, call, whole=isinstance(call.func, cst.Attribute))
        return replace(found, frees=head)

    def use(self, spelling: Spelling) -> None:
        """Note that a spelling is in the new text."""
        if spelling.needs is not None:
            AddImportsVisitor.add_needed_import(self.context, *spelling.needs)
        head = spelling.frees
        if head is not None and not self.keep_imports:
            obj = head.alias.evaluated_name if isinstance(head.node, cst.ImportFrom) else None
            RemoveImportsVisitor.remove_unused_import(self.context, head.module, obj, head.alias.evaluated_alias)

    def finish(self, module: cst.Module) -> cst.Module:
        """Return the module with the imports that are needed, and without those that nothing needs any more."""
        if RemoveImportsVisitor.CONTEXT_KEY in self.context.scratch:
            module = RemoveImportsVisitor(self.context).transform_module(module)
        if AddImportsVisitor.CONTEXT_KEY in self.context.scratch:
            module = AddImportsVisitor(self.context).transform_module(module)
        return module

    # What is there

    def _existing(self, name: Dotted, at: cst.CSTNode) -> Spelling | None:
        """Return the shortest way to write `name` with the imports that are there, or will be."""
        loaded = {each.module for each in self.imported if self._before(each, at)}
        for each in sorted(self.imported, key=lambda found: -len(found.target)):
            inside = name.name == each.target or name.name.startswith(f"{each.target}.")
            reached = len(each.target) >= len(name.module) or name.module in loaded
            if inside and reached and self._surely(each, at):
                return Spelling(dotted(each.local + name.name.removeprefix(each.target)))
        for local, (target, needs) in self._added.items():
            inside = needs[0] == name.module and (name.name == target or name.name.startswith(f"{target}."))
            if inside and not self._bound(local, at):
                return Spelling(dotted(local + name.name.removeprefix(target)), needs)
        return None

    def _head(self, call: cst.Call) -> Imported | None:
        local = (get_full_name_for_node(call.func) or "").partition(".")[0]
        named = [each for each in self.imported if each.local == local and self._surely(each, call)]
        return named[-1] if named else None

    def _surely(self, each: Imported, at: cst.CSTNode) -> bool:
        found = self._bound(each.local, at)
        own = {id(other.node) for other in self.imported if (other.local, other.target) == (each.local, each.target)}
        return self._before(each, at) and bool(found) and all(id(getattr(a, "node", None)) in own for a in found)

    def _before(self, each: Imported, at: cst.CSTNode) -> bool:
        return self._places[each.node].end.line < self._places[at].start.line

    def _bound(self, local: str, at: cst.CSTNode) -> set[BaseAssignment]:
        """Return what binds a name at a node or at the top of the module."""
        scope = self._scope(at)
        return set(scope[local]) | set(scope.globals[local])

    def _scope(self, at: cst.CSTNode) -> Scope:
        if self._scopes is None:
            self._scopes = self.wrapper.resolve(ScopeProvider)
        scope = self._scopes.get(at)
        return scope if scope is not None else next(s for s in self._scopes.values() if isinstance(s, GlobalScope))

    # What is added and what goes

    def _beside(self, head: Imported, name: Dotted, call: cst.Call) -> Spelling | None:
        """Return the name written from the same head, with an import that loads the rest of its path."""
        if not isinstance(call.func, cst.Attribute) or not name.module.startswith(f"{head.target}."):
            return None
        root = name.module.partition(".")[0]
        own = {id(each.node) for each in self.imported if each.local == each.target == root}
        if any(id(getattr(assignment, "node", None)) not in own for assignment in self._bound(root, call)):
            return None
        return Spelling(dotted(head.local + name.name.removeprefix(head.target)), (name.module, None))

    def _new(self, name: Dotted, at: cst.CSTNode, *, whole: bool) -> Spelling:
        """Return the name with an import of its own: `whole` prefers that of the module to that of what is in it."""
        module, rest = name.module, name.name.removeprefix(f"{name.module}.")
        root, first = module.partition(".")[0], rest.partition(".")[0]
        ways = [(root, root, (module, None), name.name), (first, f"{module}.{first}", (module, first), rest)]
        for local, target, needs, written in ways if whole else reversed(ways):
            if self._may_bind(local, target, at):
                self._added[local] = target, needs
                return Spelling(dotted(written), needs)
        raise CannotEdit(f"the names {root} and {first} are both taken")

    def _may_bind(self, local: str, target: str, at: cst.CSTNode) -> bool:
        if self._added.get(local, (target,))[0] != target:
            return False
        own = {
            id(each.node) for each in self.imported if each.local == each.target == target and self._before(each, at)
        }
        return all(id(getattr(assignment, "node", None)) in own for assignment in self._bound(local, at))

    def _moves(self, head: Imported, name: Dotted, call: cst.Call, calls: Sequence[cst.CSTNode]) -> bool:
        """Tell whether the import can change instead of the call: all that uses its name is to be renamed alike."""
        if self.keep_imports or head.local != name.name.rpartition(".")[2] or not isinstance(head.node, cst.ImportFrom):
            return False
        renamed = {id(each.func) for each in calls if isinstance(each, cst.Call)}
        assignments = self._bound(head.local, call)
        imports = [each for each in assignments if isinstance(each, ImportAssignment)]
        uses = [access.node for each in imports for access in each.references]
        if len(assignments) != 1 or len(imports) != 1 or any(id(node) not in renamed for node in uses):
            return False
        self.moved.setdefault(head.node, {})[head.target] = name.name
        return True


def _imported(module: cst.Module) -> Iterator[Imported]:
    for line in module.body:
        for node in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            if isinstance(node, cst.Import):
                yield from (_whole(node, alias) for alias in node.names)
            elif isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar) and not node.relative:
                home = get_full_name_for_node(node.module or "") or ""
                for alias in node.names:
                    local = alias.evaluated_alias or alias.evaluated_name
                    yield Imported(local, f"{home}.{alias.evaluated_name}", home, node, alias)


def _whole(node: cst.Import, alias: cst.ImportAlias) -> Imported:
    name, local = alias.evaluated_name, alias.evaluated_alias
    root = name.partition(".")[0]
    return Imported(local or root, name if local else root, name, node, alias)
