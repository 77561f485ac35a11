"""Apply edits to the text of one module by way of its concrete syntax tree, so that all else stays as it is written.

A call is found by where it stands and by how it is written. What cannot be told exactly is refused with a reason, and a
text that would not be Python, or that the tree does not give back letter by letter, is not touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import libcst as cst
from libcst.helpers import get_full_name_for_node
from libcst.metadata import MetadataWrapper, PositionProvider

from tensoraudit.extract.python_files import UnreadableFile
from tensoraudit.extract.python_syntax import parse
from tensoraudit.fixes.arguments import Binding, literal, remove_argument, set_argument
from tensoraudit.fixes.imports import replaced
from tensoraudit.fixes.names import Names, Spelling
from tensoraudit.fixes.verbs import (
    Applied,
    CannotEdit,
    Done,
    Dotted,
    Edit,
    Outcome,
    Place,
    Refused,
    RemoveArgument,
    RenameCall,
    ReplaceImport,
    SetArgument,
    Waiting,
)

T = TypeVar("T")


def apply(text: str, edits: Sequence[Edit], *, unsafe: bool = False, keep_imports: bool = False) -> Applied:
    """Return the text with the edits made. Several edits of one call are made in their order.

    Where some edits change imports and others calls, the latter have to wait for the new text. `unsafe` allows edits
    that replace what is computed; `keep_imports` keeps imports that nothing in this file uses (others may import them).
    """
    try:
        return _Pass(text, edits, unsafe, keep_imports).applied()
    except CannotEdit as error:
        return Applied(text, (Refused(str(error), error.risky),) * len(edits))
    except (RecursionError, KeyError):  # LibCST reports a recursion inside its metadata as a missing key
        return Applied(text, (Refused("the file is nested too deeply"),) * len(edits))


class _Pass:
    """One pass over one text. `targets` are the nodes of the edits, `built` the new names and values that they need."""

    def __init__(self, text: str, edits: Sequence[Edit], unsafe: bool, keep_imports: bool) -> None:
        self.text, self.edits, self.unsafe = text, edits, unsafe
        self.module = _parsed(text)
        wrapper = MetadataWrapper(self.module, unsafe_skip_copy=True)
        self.nodes = _places(wrapper)
        self.names = Names(wrapper, keep_imports)
        self.outcomes: dict[int, Outcome] = {}
        self.targets: dict[int, cst.CSTNode] = {}
        self.built: dict[int, list[Spelling]] = {}
        self.edits_of: dict[cst.CSTNode, list[int]] = {}

    def applied(self) -> Applied:
        calls = [index for index, edit in enumerate(self.edits) if not isinstance(edit.verb, ReplaceImport)]
        self._locate_all(index for index in range(len(self.edits)) if index not in calls)
        if news := self._news():
            self.outcomes |= dict.fromkeys(calls, Waiting())
            return self._imports(news)
        self._locate_all(calls)
        return self._calls()

    def _locate_all(self, indices: Iterable[int]) -> None:
        for index in indices:
            self._try(index, lambda index=index: self._locate(index, self.edits[index]))  # type: ignore[misc]

    def _locate(self, index: int, edit: Edit) -> None:
        wanted = (cst.Import, cst.ImportFrom) if isinstance(edit.verb, ReplaceImport) else cst.Call
        node = next((each for each in self.nodes.get(edit.place, ()) if isinstance(each, wanted)), None)
        if node is None or (isinstance(node, cst.Call) and not _written(node, edit.written)):
            raise CannotEdit("the call or import is not found at this place of the file")
        self.targets[index] = node

    def _try(self, index: int, action: Callable[[], T]) -> T | None:
        """Return what an action gives, or note why the edit cannot be made."""
        try:
            return action()
        except CannotEdit as error:
            self.outcomes[index] = Refused(str(error), error.risky)
            self.targets.pop(index, None)
            return None

    # Calls

    def _calls(self) -> Applied:
        for index, node in list(self.targets.items()):
            self._try(index, lambda index=index, node=node: self._build(index, node))  # type: ignore[misc]
        for index, node in self.targets.items():
            self.edits_of.setdefault(node, []).append(index)
        editor = _Editor(self.edited, {node: replaced(node, names) for node, names in self.names.moved.items()})
        changed = self.names.finish(self.module.visit(editor))
        if changed.code == self.text:
            return self._finished(self.text, {})
        ordered = [node for node in _of_type(self.module, cst.Call) if node not in editor.gone]
        return self._finished(changed.code, _now(changed.code, ordered))

    def _build(self, index: int, call: cst.CSTNode) -> None:
        """Write the names and values of an edit for their place; imports are looked at in the text as it was."""
        assert isinstance(call, cst.Call)
        match self.edits[index].verb:
            case SetArgument(values=values):
                new = [self.names.spell(v, call) if isinstance(v, Dotted) else Spelling(literal(v)) for _, v in values]
            case RenameCall(name=name) as verb:
                alike = [node for other, node in self.targets.items() if self.edits[other].verb == verb]
                new = [self.names.rename(name, call, alike)]
            case _:
                new = []
        self.built[index] = new

    def edited(self, original: cst.Call, call: cst.Call) -> cst.Call:
        """Return a call after all edits of it."""
        for index in self.edits_of.get(original, ()):
            new = self._try(index, lambda index=index, call=call: self._edited(index, original, call))  # type: ignore[misc]
            if new is not None:
                for spelling in self.built[index] if new is not call else ():
                    self.names.use(spelling)
                call = new
                self.outcomes[index] = Done(())
        return call

    def _edited(self, index: int, original: cst.Call, call: cst.Call) -> cst.Call:
        edit, built = self.edits[index], self.built[index]
        match edit.verb:
            case SetArgument(values=values):
                for (parameter, _), value in zip(values, built, strict=True):
                    call = set_argument(Binding(edit.callee, call), parameter, value.code, unsafe=self.unsafe)
            case RemoveArgument(parameters=parameters):
                for parameter in parameters:
                    call = remove_argument(Binding(edit.callee, call), parameter, unsafe=self.unsafe)
            case RenameCall() if built[0].code is not original.func:
                call = call.with_changes(func=built[0].code)
        return call

    # Imports

    def _news(self) -> dict[cst.CSTNode, Sequence[cst.BaseSmallStatement]]:
        """Return the imports that change, with what stands for them."""
        news: dict[cst.CSTNode, Sequence[cst.BaseSmallStatement]] = {}
        for index, node in list(self.targets.items()):
            verb = self.edits[index].verb
            assert isinstance(node, cst.Import | cst.ImportFrom) and isinstance(verb, ReplaceImport)
            found = self._try(index, lambda node=node, verb=verb: replaced(node, verb.names))  # type: ignore[misc]
            if found is not None:
                news[node] = found
                self.outcomes[index] = Done(())
        return news

    def _imports(self, news: Mapping[cst.CSTNode, Sequence[cst.BaseSmallStatement]]) -> Applied:
        code = self.module.visit(_Editor(lambda _, call: call, news)).code
        places: dict[cst.CSTNode, tuple[Place, ...]] = {}
        left = _ordered(code, (cst.Import, cst.ImportFrom))
        for node in _of_type(self.module, (cst.Import, cst.ImportFrom)):
            count = len(news.get(node, (node,)))
            places[node], left = tuple(left[:count]), left[count:]
        return self._finished(code, places)

    # The end

    def _finished(self, code: str, places: Mapping[cst.CSTNode, tuple[Place, ...]]) -> Applied:
        """A text that is no Python is not given out; the edits that would have made it are refused."""
        try:
            parse(code)
        except UnreadableFile as error:
            raise CannotEdit(f"the result would be {error}") from None
        for index, target in self.targets.items():
            own = (self.edits[index].place,) if code == self.text else places.get(target, ())
            self.outcomes[index] = Done(own)
        return Applied(code, tuple(self.outcomes[index] for index in range(len(self.edits))))


class _Editor(cst.CSTTransformer):
    """Edits calls, innermost first, and puts statements (`news`) in the place of imports: a second one on a line of its
    own, unless the line holds others. `gone` are the calls inside arguments that were replaced or removed."""

    def __init__(self, edited: Callable[[cst.Call, cst.Call], cst.Call], news: Mapping[cst.CSTNode, Any]) -> None:
        super().__init__()
        self.edited, self.news, self.gone = edited, news, set[cst.CSTNode]()

    def leave_Call(  # noqa: N802 - named by LibCST
        self, original_node: cst.Call, updated_node: cst.Call
    ) -> cst.Call:
        new = self.edited(original_node, updated_node)
        kept = {id(arg.value) for arg in new.args}
        for old, arg in zip(original_node.args, updated_node.args, strict=True):
            bare = isinstance(old.value, cst.GeneratorExp) and not old.value.lpar  # gets parentheses, and stays
            if id(arg.value) not in kept and not bare:
                self.gone.update(_of_type(old, cst.Call))
        return new

    def leave_SimpleStatementLine(  # noqa: N802 - named by LibCST
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> Any:
        if not any(node in self.news for node in original_node.body):
            return updated_node
        pairs = zip(original_node.body, updated_node.body, strict=True)
        body = [new for node, same in pairs for new in self.news.get(node, (same,))]
        if len(original_node.body) == 1 and len(body) == 2:
            return cst.FlattenSentinel([updated_node.with_changes(body=body[:1]), cst.SimpleStatementLine(body[1:])])
        return updated_node.with_changes(body=body)


def _parsed(text: str) -> cst.Module:
    try:
        parse(text)  # first, because the other parser takes the process with it where this one says "too deep"
        module = cst.parse_module(text)
    except UnreadableFile as error:
        raise CannotEdit(str(error)) from None
    except cst.ParserSyntaxError as error:
        raise CannotEdit(f"it cannot be parsed (line {error.raw_line}): {error.message}") from None
    if module.code != text:
        raise CannotEdit("its line ends cannot be kept as they are")
    return module


def _places(wrapper: MetadataWrapper) -> dict[Place, list[cst.CSTNode]]:
    found: dict[Place, list[cst.CSTNode]] = {}
    for node, at in wrapper.resolve(PositionProvider).items():
        if isinstance(node, cst.Call | cst.Import | cst.ImportFrom):
            place = Place(at.start.line, at.start.column + 1, at.end.line, at.end.column + 1)
            found.setdefault(place, []).append(node)
    return found


def _written(call: cst.Call, written: str) -> bool:
    """Tell whether a call is the one that was meant, where it is written as a plain dotted name."""
    name = get_full_name_for_node(call.func)
    plain = written.replace(".", "").replace("_", "").isalnum()
    return not plain or name == written


class _Collector(cst.CSTVisitor):
    def __init__(self, wanted: Any) -> None:
        super().__init__()
        self.wanted, self.found = wanted, list[cst.CSTNode]()

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, self.wanted):
            self.found.append(original_node)


def _of_type(tree: cst.CSTNode, wanted: Any) -> list[cst.CSTNode]:
    """Return the nodes of a type in the order in which they end: edits change it nowhere."""
    collector = _Collector(wanted)
    tree.visit(collector)
    return collector.found


def _ordered(code: str, wanted: Any) -> list[Place]:
    wrapper = MetadataWrapper(_parsed(code), unsafe_skip_copy=True)
    at = {id(node): place for place, nodes in _places(wrapper).items() for node in nodes}
    return [at[id(node)] for node in _of_type(wrapper.module, wanted)]


def _now(code: str, nodes: Sequence[cst.CSTNode]) -> dict[cst.CSTNode, tuple[Place, ...]]:
    """Return where the calls of the old tree stand in the new text."""
    places = _ordered(code, cst.Call)
    if len(places) != len(nodes):
        raise CannotEdit("its calls cannot be followed through the change")
    return {node: (place,) for node, place in zip(nodes, places, strict=True)}
