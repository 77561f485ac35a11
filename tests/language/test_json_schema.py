"""The schema for editors: every rule here is right by it, wrong ones are not, and no word is missing."""

import json

import jsonschema
import pytest

from tensoraudit.language import json_schema
from tensoraudit.language.document import plain, read_documents
from tensoraudit.language.json_schema import rule_schema
from tensoraudit.language.load import rules_folder
from tensoraudit.language.operators import OPERATORS
from tensoraudit.language.relations import BOOLEANS, RELATIONS

SCHEMA = rule_schema()
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)
PATHS = sorted(path for path in rules_folder().rglob("*.yaml") if path.name != "pack.yaml")


def texts(value):
    """JSON has no other keys than texts."""
    if isinstance(value, dict):
        return {str(key): texts(item) for key, item in value.items()}
    return [texts(item) for item in value] if isinstance(value, list) else value


def faults(text):
    (document,), problems = read_documents(text, "r.yaml")
    assert not problems
    return [error.message for error in VALIDATOR.iter_errors(texts(plain(document)))]


def test_it_is_a_schema():
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_every_rule_is_right(path):
    documents, _ = read_documents(path.read_text(encoding="utf-8"), path.name)
    for document in documents:
        assert [error.message[:300] for error in VALIDATOR.iter_errors(texts(plain(document)))] == []


def test_no_operator_and_no_relation_is_missing():
    assert set(json_schema._OPERATORS) == set(OPERATORS)
    assert set(json_schema._RELATIONS) | BOOLEANS == set(RELATIONS)


@pytest.mark.parametrize(
    "match",
    [
        "{call: f, args: {0|x: {literal: true}}, written: {regex: ^self}, inside: {loop: true}}",
        "{call: [f, g], not: [{args: {x: 1}}, {inside: {with: a.b}}], absent: {call: h, in: module, before: true}}",
        "{call: f, inside: {function: g, passed-to: {call: h, args: {0: 1}, argument: 0|f, known: true}}}",
        "{call: f, certainty: likely, exists: {reference: h, in: args.1|target, known: true, same: {name: assigned}}}",
        "{node: Conv, attributes: {pads: {count: {of: {gt: 0}, ge: 2}}, group: [1, {present: false}]}}",
        "{node: A, all: [{producer: {index: 0, upstream: {node: A, within: 2}}}, {input: {index: 0, present: true}}]}",
        "{value: '**', role: input, shape: {rank: 4, 1: {dim: static}}}",
        "{measurement: output.linf, value: {gt: 1e-3}, exists: {measurement: run.error, same: {subject: subject}}}",
        "{model: onnx, inputs: {any: {name: x, shape: {0: {dim: symbolic}}}}}",
        "[{call: f, message: a, fix: Leave it out.}, {operation: //}]",
    ],
)  # fmt: skip
def test_what_is_right(lang, match):
    assert lang.rule(match)
    assert faults(lang.text(match)) == []


@pytest.mark.parametrize(
    "match",
    [
        "{cal: f}",
        "{call: f, node: Conv}",
        "{call: 3}",
        "{call: []}",
        "{node: Conv, atributes: {group: 1}}",
        "{node: Conv, domain: 3}",
        "{node: Conv, inside: {loop: true}}",
        "{call: f, inside: {functions: g}}",
        "{call: f, exists: {call: g}}",
        "{call: f, exists: {call: g, in: file}}",
        "{call: f, exists: {package: torch, version: 2.10}}",
        "{call: f, args: {x: {gtt: 1}}}",
        "{call: f, args: {'a b': 1}}",
        "{node: Conv, upstream: {node: Pad}}",
        "{node: Conv, upstream: {node: Pad, within: 9}}",
        "{node: Conv, input: {present: false}}",
        "{node: Conv, producer: {index: x}}",
        "{value: x, shape: [1, 3]}",
        "{value: x, dtype: flaot16}",
        "{value: x, role: inputs}",
        "{measurement: output.verdit}",
        "{operation: '//*'}",
        "{call: f, side: both}",
        "3",
        "[]",
    ],
)
def test_what_is_wrong_to_the_compiler_is_wrong_here(lang, match):
    assert lang.problems(match)
    assert faults(lang.text(match))


@pytest.mark.parametrize(
    "extra",
    [
        "certainty: sure",
        "layers: graph",
        "source: [torch]",
        "aliases: [x1]",
        "versions: 2.1",
        "deprecated: 1",
        "fix: {set-argument: {a: 1}}",
        "fix: {set-arguments: {a: 1}, safety: safe}",
        "when: [{call: f}]",
        "when: [{package: torch, version: 2.10}]",
        "confirm: {probe: outputs, confirmed: {measurement: output.linf}}",
        "confirm: {probe: output, confirmed: {measurement: output.linf}, refuted: {measurement: output.linf}}",
    ],
)
def test_wrong_keys(lang, extra):
    assert lang.problems("{call: f}", extra)
    assert faults(lang.text("{call: f}", extra))


def test_wrong_examples(lang):
    assert faults(lang.text("{call: f}").replace("flag:", "flags:"))
    assert faults(lang.text("{call: f}").partition("examples:")[0])
