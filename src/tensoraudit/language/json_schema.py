"""The language as JSON Schema (draft 7), made from its own tables, so that editors complete rules and mark wrong words.

It says what may stand where. What needs more than one place to judge (a capture that nothing binds, tests that exclude
each other, an example that is not reported) only the compiler says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from tensoraudit.facts.store import CODE_KINDS, KEYS
from tensoraudit.language import schema
from tensoraudit.language.compile import OPTIONAL, REQUIRED
from tensoraudit.language.example import EXAMPLE_KEYS
from tensoraudit.language.metrics import METRICS, PROBES
from tensoraudit.language.relations import BOOLEANS, KINDS_OF, RELATIONS, SCOPE_KEYS
from tensoraudit.language.schema import ANCHORS, COMMON, KEY_WORDS, VALUE_FIELDS, FieldType

Schema = dict[str, Any]

_TYPES: Final = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_STRING: Final[Schema] = {"type": "string"}
_BOOLEAN: Final[Schema] = {"type": "boolean"}
_INDEX: Final = "^-?[0-9]+$"
_ARGUMENT: Final = r"^\w+(\|\w+)*$"


def rule_schema() -> Schema:
    """Return the schema of one rule file. Keys of mappings that are whole numbers count as text, as in JSON."""
    definitions = {
        **{name: _test(kind) for name, kind in _FIELD_TYPES.items()},
        **{f"conditions-{kind}": _mapping(kind, {}) for kind in ANCHORS},
        **{f"search-{kind}": _search(kind) for kind in ANCHORS},
        **{f"relation-{name}": build() for name, build in _RELATIONS.items()},
        "names": _one_or_more(_STRING),
        "match": {"anyOf": [_anchor(kind) for kind in ANCHORS]},
        "when": _when(),
        "measured": _measured(),
        "handover": _handover(),
    }
    properties = {key: _RULE_KEYS[key] for key in (*REQUIRED, *OPTIONAL)}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A rule of tensoraudit",
        **_closed(properties, REQUIRED),
        "definitions": definitions,
    }


def _ref(name: str) -> Schema:
    return {"$ref": f"#/definitions/{name}"}


def _closed(properties: Mapping[str, Schema], required: Iterable[str] = ()) -> Schema:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def _one_or_more(part: Schema) -> Schema:
    return {"anyOf": [part, {"type": "array", "items": part, "minItems": 1}]}


def _words(words: Iterable[str]) -> Schema:
    return {"enum": list(words)}


# Value tests

_FIELD_TYPES: Final = {
    f"test-{name.lower()}": kind for name, kind in vars(schema).items() if isinstance(kind, FieldType)
}
"""Every type of field under the name of its constant."""


def _field(kind: FieldType) -> Schema:
    return _ref(next(name for name, known in _FIELD_TYPES.items() if known is kind))


def _test(kind: FieldType) -> Schema:
    """Return what a test of this type may look like: a scalar, a list of tests, or a mapping of operators."""
    if kind is schema.RECORD:
        return _closed({name: _field(inner) for name, inner in VALUE_FIELDS.items()})
    if kind.entries is not None:
        return _by_key(kind)
    mapping = _closed({name: _OPERATORS[name](kind) for name in sorted(kind.operators & set(_OPERATORS))})
    mapping["minProperties"] = 1
    if "index" in kind.operators:
        mapping["patternProperties"] = {_INDEX: _field(kind.element or kind)}
    if kind.short == "refused":
        return mapping
    return {"anyOf": [_scalar(kind), {"type": "array", "items": _itself(kind), "minItems": 1}, mapping]}


def _by_key(kind: FieldType) -> Schema:
    keys = {"propertyNames": {"pattern": _ARGUMENT}} if kind is schema.ARGUMENTS else {}
    return {"type": "object", "additionalProperties": _field(kind.entries), **keys} if kind.entries else {}


def _itself(kind: FieldType) -> Schema:
    return _field(kind)


def _scalar(kind: FieldType) -> Schema:
    if kind.words:
        # Types of no tensor hold the type of their elements: sequence(float32).
        other = [{"type": "string", "pattern": r"\("}] if kind is schema.DTYPE else []
        return {"anyOf": [_words(kind.words), *other]}
    if kind.short != "equal":
        return _STRING
    return {"type": [_TYPES[each] for each in kind.scalars]}


def _plain(kind: FieldType) -> Schema:
    return {"anyOf": [_scalar(kind), {"type": ["array", "object"]}]}


def _count(_: FieldType) -> Schema:
    return {
        "anyOf": [
            _field(schema.NUMBER),
            {"type": "object", "required": ["of"], "properties": {"of": {}}, "minProperties": 2},
        ]
    }


def _bound(_: FieldType) -> Schema:
    return {"type": "number"}


def _element(kind: FieldType) -> Schema:
    return _field(kind.element or kind)


_OPERATORS: Final[Mapping[str, Callable[[FieldType], Schema]]] = {
    "is": _plain,
    "in": lambda kind: {"type": "array", "items": _itself(kind), "minItems": 1},
    "not": _itself,
    "lt": _bound,
    "le": _bound,
    "gt": _bound,
    "ge": _bound,
    "regex": lambda _: {"type": "string", "format": "regex"},
    "contains": lambda kind: _plain(kind.element or (schema.TEXT if kind.words else kind)),
    "version": lambda _: _STRING,
    "present": lambda _: _BOOLEAN,
    "literal": lambda _: _BOOLEAN,
    "name": lambda _: _ref("names"),
    "known": lambda _: _BOOLEAN,
    "rank": lambda _: _field(schema.NUMBER),
    "dim": lambda _: _words(("static", "symbolic")),
    "any": _element,
    "every": _element,
    "none": _element,
    "count": _count,
}
"""What stands behind each operator."""


# Patterns


def _mapping(kind: str, more: Mapping[str, Schema], required: Iterable[str] = ()) -> Schema:
    """Return a mapping with the fields and relations of a kind, and `more` keys."""
    fields = {name: _field(inner) for name, inner in {**ANCHORS[kind], **COMMON}.items()}
    own = {name: _ref(f"conditions-{kind}") for name in BOOLEANS}
    relations = {name: _ref(f"relation-{name}") for name in RELATIONS if kind in KINDS_OF.get(name, ANCHORS)}
    relations |= {name: _one_or_more(part) for name, part in own.items()}
    return _closed({**fields, **relations, **more}, required)


def _names(kind: str) -> Schema:
    words = tuple(METRICS) if kind == "measurement" else KEY_WORDS.get(kind)
    if words is None:
        return _ref("names")
    # Editors offer the words; a pattern over them is right too, but for operations, which are always literal.
    pattern = [] if kind == "operation" else [{"type": "string", "pattern": r"[*{]"}]
    return _one_or_more({"anyOf": [_words(words), *pattern]})


def _anchor(kind: str) -> Schema:
    return {
        "title": f"{kind}, by its {KEYS[kind]}",
        **_mapping(kind, {**_ALTERNATIVE, kind: _names(kind)}, [kind]),
    }


def _place(kind: str) -> Schema:
    argument = [{"type": "string", "pattern": r"^args\.\w+(\|\w+)*$"}] if kind in CODE_KINDS else []
    return {"anyOf": [_words(schema.PLACES), *argument]}


def _search(kind: str) -> Schema:
    own = {
        kind: _names(kind), "in": _place(kind), "known": _BOOLEAN, "before": _BOOLEAN, "after": _BOOLEAN,
        "same": {"anyOf": [_ref("names"), {"type": "object", "additionalProperties": _STRING}]},
    }  # fmt: skip
    return _mapping(kind, own, [kind] if kind in schema.EVERYWHERE else [kind, "in"])


def _inside() -> Schema:
    names = {"anyOf": [{"const": True}, _ref("names")]}
    known = dict.fromkeys((*schema.BLOCKS, *SCOPE_KEYS), names)
    return {**_closed({**known, "passed-to": _ref("handover")}), "minProperties": 1}


def _handover() -> Schema:
    argument = {"type": ["integer", "string"], "pattern": _ARGUMENT}
    return _mapping("call", {"call": _names("call"), "argument": argument, "known": _BOOLEAN}, ["call"])


_END: Final[Mapping[str, Schema]] = {"index": {"type": "integer"}, "quantifier": _words(("any", "every"))}


def _value_end() -> Schema:
    fields = {name: _field(inner) for name, inner in VALUE_FIELDS.items()}
    return {**_closed({**fields, **_END, "present": _BOOLEAN}), "dependencies": {"present": ["index"]}}


def _edge() -> Schema:
    return _mapping("node", {"node": _names("node"), **_END})


def _stream() -> Schema:
    within = {"type": "integer", "minimum": 1, "maximum": 8}
    return _mapping("node", {"node": _names("node"), "within": within}, ["within"])


def _exists() -> Schema:
    return {"anyOf": [_ref(f"search-{kind}") for kind in ANCHORS]}


_RELATIONS: Final[Mapping[str, Callable[[], Schema]]] = {
    name: (lambda build=build: _one_or_more(build()))  # type: ignore[misc]
    for name, build in {
        "inside": _inside, "exists": _exists, "absent": _exists, "input": _value_end, "output": _value_end,
        "producer": _edge, "consumer": _edge, "upstream": _stream, "downstream": _stream,
    }.items()
}  # fmt: skip
"""Relations but the booleans, whose parts are conditions on the same fact."""


# The other keys of a rule


def _when() -> Schema:
    tests = [_ref(f"search-{kind}") for kind in schema.ENVIRONMENT_ANCHORS]
    joins = [_closed({join: _one_or_more(_ref("when"))}, [join]) for join in ("all", "any", "not")]
    return {"anyOf": [*tests, *joins]}


def _measured() -> Schema:
    fields = ANCHORS["measurement"]
    row = {
        "measurement": _words(METRICS), "value": _field(fields["value"]), "subject": _STRING,
        "side": _words(schema.SIDE.words), "detail": _field(fields["detail"]), "quantifier": _words(("any", "every")),
    }  # fmt: skip
    several: Schema = {"type": "array", "items": _ref("measured"), "minItems": 1}
    joins = [_closed({join: several}, [join]) for join in ("all", "any")]
    return {"anyOf": [_closed(row, ["measurement"]), several, *joins]}


def _fix() -> Schema:
    safety = _words(("safe", "unsafe"))
    return {"anyOf": [_STRING, *(_closed({verb: {}, "safety": safety}, [verb, "safety"]) for verb in schema.FIX_VERBS)]}


_ALTERNATIVE: Final[Mapping[str, Schema]] = {
    "message": _STRING, "fix": _fix(), "certainty": _words(schema.CERTAINTIES), "refutable": {"type": "boolean"},
}  # fmt: skip
"""Keys of a pattern of `match` that are no condition."""


def _example() -> Schema:
    texts = dict.fromkeys(("python", "file", "onnx", "onnx_model", "fixed"), _STRING)
    lists = {key: {"type": ["array", "string"]} for key in ("inputs", "outputs", "initializers", "flag", "suspect")}
    numbers = {key: {"type": "integer"} for key in ("opset", "ir_version")}
    side = {"side": _words(("source", "target"))}
    rest: dict[str, Schema] = {key: {"type": ["object", "array"]} for key in EXAMPLE_KEYS}
    return _closed({**rest, **texts, **lists, **numbers, **side})


_ID: Final[Schema] = {"type": "string", "pattern": "^[A-Z]+-[0-9]+$"}
_TEXT: Final[Schema] = {"type": "string", "minLength": 1}
_RULE_KEYS: Final[Mapping[str, Schema]] = {
    "id": _ID,
    "title": _TEXT,
    "severity": _words(schema.SEVERITIES),
    "layer": _words(schema.LAYERS),
    "match": _one_or_more(_ref("match")),
    "message": _TEXT,
    "why": _TEXT,
    "remedy": _TEXT,
    "examples": {"type": "array", "items": _example(), "minItems": 2},
    "certainty": _words(schema.CERTAINTIES),
    "source": _one_or_more(_words(schema.FRAMEWORKS)),
    "target": _one_or_more(_words(schema.FRAMEWORKS)),
    "when": _one_or_more(_ref("when")),
    "confirm": _closed(
        {
            "probe": _words(PROBES),
            "with": {"type": "object"},
            "confirmed": _ref("measured"),
            "refuted": _ref("measured"),
        },
        ["probe", "confirmed", "refuted"],
    ),
    "scan": _BOOLEAN,
    "versions": _TEXT,
    "fix": _fix(),
    "references": _one_or_more(_STRING),
    "aliases": _one_or_more(_ID),
    "deprecated": _BOOLEAN,
    "see-also": _one_or_more(_ID),
    "supersedes": _one_or_more(_ID),
}
