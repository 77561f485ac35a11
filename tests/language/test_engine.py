"""Matching: which rules live, what state a match has, one finding per place, order and fingerprints."""

import random

import pytest

from tensoraudit.facts import ABSENT, ClassDef, Measurement, Name, Package, Reference, Site, Unknown, Value, Variable
from tensoraudit.facts.store import FactStore
from tensoraudit.language.engine import match_rules, state_of
from tensoraudit.language.kleene import UNKNOWN, YES
from tensoraudit.language.load import RuleSet, parse_rules


def states(matches):
    return [match.state for match in matches]


@pytest.mark.parametrize(
    ("callee", "more", "expected"),
    [
        ("f", {}, ["certain"]),
        ("f", {"ambiguous": True}, ["suspected"]),
        ("?.f", {}, ["suspected"]),
        ("g", {}, []),
    ],
)
def test_the_name_decides_first(lang, callee, more, expected):
    rule = lang.rule('{call: [f, "?.f", "**.zzz"]}')
    assert states(lang.matches(rule, lang.call(callee, **more))) == expected


def test_any_pattern_over_an_unknown_receiver_is_a_suspicion(lang):
    assert states(
        lang.matches(lang.rule('{call: "**.half"}'), lang.call("?.half"), lang.call("t.x().half", line=2))
    ) == [
        "suspected",
        "certain",
    ]


@pytest.mark.parametrize(
    ("args", "more", "test", "expected"),
    [
        ({"w": True}, {}, "{w: true}", "certain"),
        ({"w": False}, {}, "{w: true}", None),
        ({}, {}, "{w: {present: false}}", "certain"),
        ({}, {"splat": True}, "{w: {present: false}}", "suspected"),
        ({}, {"splat": True}, "{w: true}", "suspected"),
        ({"w": Unknown("?")}, {}, "{w: true}", "suspected"),
        ({"w": Unknown("?")}, {}, "{w: {present: true}}", "certain"),
        ({"w": Name("x")}, {}, "{w: true}", "suspected"),
        ({0: 1}, {}, "{0|w: 1}", "certain"),
        ({0: 2, "w": 1}, {}, "{0|w: 1}", "certain"),
        ({0: 1}, {}, "{w|0: 1}", "certain"),
        ({0: 1}, {}, "{0: 1}", "certain"),
        ({0: 1}, {}, "{w: 1}", None),
        ({"w": 1, "v": 2}, {}, "{w: 1, v: 3}", None),
    ],
)
def test_arguments(lang, args, more, test, expected):
    matches = lang.matches(lang.rule(f"{{call: f, args: {test}}}"), lang.call("f", args, **more))
    assert states(matches) == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("self.cache.add_", ["certain"]),
        ("'self.**'", ["certain"]),
        ("[x.half, '*.cache.add_']", ["certain"]),
        ("self.*", []),
        ("{regex: '^self\\.'}", ["certain"]),
        ("{regex: '^x\\.'}", []),
        ("{not: {contains: cache}}", []),
        ("{is: 'self.**'}", []),
    ],
)
def test_a_call_as_it_is_written(lang, test, expected):
    rule = lang.rule(f"{{call: '**.add_', written: {test}}}")
    assert states(lang.matches(rule, lang.call("t.x().add_", written="self.cache.add_"))) == expected


def test_a_call_that_no_source_shows_has_no_text(lang):
    assert not lang.matches(lang.rule("{call: f, written: {regex: ''}}"), lang.call("f"))
    assert lang.matches(lang.rule("{call: f, written: {present: false}}"), lang.call("f"))


def test_an_ambiguous_reference_is_unknown_and_one_finding(lang):
    def reference(name, ambiguous):
        return Reference(name, None, ABSENT, 0, (), 0, Site("a.py", 3, 1), "source", ambiguous)

    facts = [reference("numpy.bool", True), reference("torch.bool", True)]
    assert states(lang.matches(lang.rule("{reference: numpy.bool}"), *facts)) == ["suspected"]
    assert states(lang.matches(lang.rule("{reference: ['*.bool']}"), *facts)) == ["suspected"]
    assert states(lang.matches(lang.rule("{reference: numpy.bool}"), reference("numpy.bool", False))) == ["certain"]
    assert not lang.matches(lang.rule("{reference: '*.bool', ambiguous: false}"), *facts)


@pytest.mark.parametrize(
    ("names", "expected"),
    [("[a.S, b.S]", ["certain"]), ("'**.S'", ["certain"]), ("a.S", ["suspected"]), ("c.S", [])],
)
def test_a_name_with_several_meanings_is_sure_where_the_rule_names_all(lang, names, expected):
    made = [lang.call(name, ambiguous=True, meanings=("a.S", "b.S")) for name in ("a.S", "b.S")]
    assert states(lang.matches(lang.rule(f"{{call: {names}}}"), *made)) == expected
    absent = lang.rule(f"{{call: z, absent: {{call: {names}, in: module}}}}")
    wanted = {"certain": [], "suspected": ["suspected"]}.get(next(iter(expected), ""), ["likely"])
    assert states(lang.matches(absent, lang.call("z", line=2), *made)) == wanted


def test_a_meaning_that_is_not_known_is_one_that_the_rule_does_not_name(lang):
    call = lang.call("a.S", ambiguous=True, meanings=("a.S", "?"))
    assert states(lang.matches(lang.rule("{call: a.S}"), call)) == ["suspected"]


def test_each_pattern_may_have_a_certainty_of_its_own(lang):
    rule = lang.rule("[{call: f, certainty: suspected}, {call: g}, {call: h, certainty: certain}]", "certainty: likely")
    found = lang.matches(rule, lang.call("f"), lang.call("g", line=2), lang.call("h", line=3))
    assert states(found) == ["suspected", "likely", "certain"]
    assert any("did you mean 'suspected'" in text for text in lang.problems("{call: f, certainty: suspect}"))


@pytest.mark.parametrize(
    ("call", "state"),
    [
        ({"double_splat": False}, "certain"),  # `*` cannot hold what is passed by name only
        ({"double_splat": True}, "suspected"),
    ],
)
def test_what_a_star_may_hold(lang, call, state):
    rule = lang.rule("{call: torch.utils.checkpoint.checkpoint, args: {use_reentrant: {present: false}}}")
    assert states(lang.matches(rule, lang.call("torch.utils.checkpoint.checkpoint", splat=True, **call))) == [state]
    # One that may be passed by position may stand behind `*`, and so may any of a callee that is not in the table.
    for callee, name in (("torch.utils.checkpoint.checkpoint_sequential", "use_reentrant"), ("f", "w")):
        rule = lang.rule(f"{{call: {callee}, args: {{{name}: {{present: false}}}}}}")
        assert states(lang.matches(rule, lang.call(callee, splat=True, **call))) == ["suspected"]


@pytest.mark.parametrize(
    ("answer", "cap", "open_world", "receiver_unknown", "state"),
    [
        (YES, "certain", False, False, "certain"),
        (YES, "certain", True, False, "likely"),
        (YES, "certain", False, True, "suspected"),
        (UNKNOWN, "certain", False, False, "suspected"),
        (UNKNOWN, "likely", True, False, "suspected"),
        (YES, "likely", False, False, "likely"),
        (YES, "suspected", True, False, "suspected"),
        (YES, "advice", True, True, "advice"),
        (UNKNOWN, "advice", False, False, "advice"),
    ],
)
def test_state(answer, cap, open_world, receiver_unknown, state):
    assert state_of(answer, cap, open_world, receiver_unknown) == state


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("{all: [{args: {a: 1}}, {args: {b: 2}}]}", ["certain"]),
        ("{all: [{args: {a: 1}}, {args: {b: 3}}]}", []),
        ("{any: [{args: {a: 5}}, {args: {b: 2}}]}", ["certain"]),
        ("{any: [{args: {a: 5}}, {args: {c: 1}}]}", ["suspected"]),
        ("{any: [{args: {a: 5}}, {args: {b: 5}}]}", []),
        ("{any: [{args: {a: 1, b: 5}}, {args: {b: 5}}]}", []),
        ("{not: {args: {a: 5}}}", ["certain"]),
        ("{not: {args: {a: 1}}}", []),
        ("{not: {args: {c: 1}}}", ["suspected"]),
        ("{not: [{args: {a: 5}}, {args: {b: 2}}]}", []),
        ("{not: [{args: {a: 5}}, {args: {b: 5}}]}", ["certain"]),
        ("{not: {args: {a: 1, b: 5}}}", ["certain"]),
        ("{any: {args: {a: 1}}}", ["certain"]),
        ("{not: {not: {args: {a: 1}}}}", ["certain"]),
    ],
)
def test_booleans(lang, condition, expected):
    rule = lang.rule(f"{{call: f, all: [{condition}]}}")
    assert states(lang.matches(rule, lang.call("f", {"a": 1, "b": 2, "c": Unknown("?")}))) == expected


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ('{package: torch, version: ">=2.6"}', ["certain"]),
        ('{package: torch, version: ">=3"}', []),
        ('{package: torch, version: ">=2.6", side: source}', ["certain"]),
        ("{package: torch, side: target}", ["suspected"]),  # that environment was not read
        ("{package: keras}", []),
        ("{not: {package: keras}}", ["certain"]),
        ("{any: [{package: keras}, {package: torch}]}", ["certain"]),
        ("{all: [{package: keras}, {package: torch}]}", []),
        ("{variable: A, value: '1'}", ["certain"]),
        ("{device: cuda}", []),
        ("{model: onnx}", []),
    ],
)
def test_when_prunes_or_doubts_the_whole_rule(lang, when, expected):
    facts = [lang.call("f"), Package("torch", "2.6.0", "source"), Variable("A", "1", "source")]
    assert states(lang.matches(lang.rule("{call: f}", f"when: [{when}]"), *facts)) == expected


def test_every_test_of_when_must_hold(lang):
    facts = [lang.call("f"), Package("torch", "2.6.0", "source")]
    rule = lang.rule("{call: f}", "when: [{package: torch}, {package: keras}]")
    assert not lang.matches(rule, *facts)


def test_frameworks_and_deprecated_rules(lang):
    rule = lang.rule("{call: f}", "target: [jax]")
    assert not lang.matches(rule, lang.call("f"), source="pytorch", target="onnx")
    assert lang.matches(rule, lang.call("f"), source="pytorch", target="jax")[0].target == "jax"
    assert not lang.matches(lang.rule("{call: f}", "deprecated: true"), lang.call("f"))


def test_sides(lang):
    facts = [lang.call("f", side="source"), lang.call("f", side="target", line=2), lang.call("f", side="both", line=3)]
    assert [m.where.line for m in lang.matches(lang.rule("{call: f, side: source}"), *facts)] == [1, 3]


def test_the_path_is_a_field(lang):
    rule = lang.rule("{call: f, path: {not: {regex: ^tests/}}}")
    facts = [lang.call("f", path="tests/a.py"), lang.call("f", path="src/a.py")]
    assert [m.where.path for m in lang.matches(rule, *facts)] == ["src/a.py"]


def test_one_place_is_one_finding_with_the_best_answer(lang):
    facts = [lang.call("f", ambiguous=True), lang.call("g", ambiguous=True), lang.call("f", line=2)]
    assert states(lang.matches(lang.rule("{call: [f, g]}"), *facts)) == ["suspected", "certain"]
    rule = lang.rule("[{call: f, args: {a: 1}}, {call: f}]")
    assert states(lang.matches(rule, lang.call("f", {"a": Unknown("?")}))) == ["certain"]


def test_alternatives_of_several_kinds_with_messages_of_their_own(lang):
    rule = lang.rule("[{call: f}, {node: Conv, message: 'node {op} {attribute:group}'}]")
    matches = lang.matches(rule, lang.call("f"), lang.node("Conv", attributes={"group": 2}, name="c"))
    assert [(m.kind, m.message) for m in matches] == [("call", "f"), ("node", "node Conv 2")]


def test_only_measurements_or_only_the_rest(lang):
    rule = lang.rule("[{call: f}, {measurement: output.linf}]")
    facts = [lang.call("f"), Measurement("output.linf", "y", 1.0)]
    assert [m.kind for m in lang.matches(rule, *facts, only="facts")] == ["call"]
    assert [m.kind for m in lang.matches(rule, *facts, only="measurements")] == ["measurement"]
    assert len(lang.matches(rule, *facts)) == 2


def test_classes_are_found_through_bases_of_bases(lang):
    facts = [
        ClassDef("Net", ("Base",), ("forward",), 1, Site("a.py", 1, 1), "source"),
        ClassDef("Base", ("torch.nn.Module",), (), 2, Site("a.py", 9, 1), "source"),
        ClassDef("Other", ("object",), (), 3, Site("a.py", 19, 1), "source"),
    ]
    rule = lang.rule("{class: '**', bases: torch.nn.Module}")
    assert [m.anchor.name for m in lang.matches(rule, *facts)] == ["Net", "Base"]
    rule = lang.rule("{class: '{name}et', bases: torch.nn.Module, methods: forward}")
    assert [(m.anchor.name, m.captures) for m in lang.matches(rule, *facts)] == [("Net", {"name": "N"})]


def test_a_class_and_a_function_are_named_by_their_last_part(lang):
    facts = [lang.scope(0, "module", ""), lang.scope(1, "function", "Net.forward", 0, ("torch.no_grad",))]
    assert lang.matches(lang.rule("{function: forward, decorators: torch.no_grad}"), *facts)
    assert lang.matches(lang.rule("{function: Net.forward}"), *facts)
    assert not lang.matches(lang.rule("{function: Net}"), *facts)


def test_values_and_nodes_show_where_they_are(lang):
    value = Value("x", "float32", (1, "n"), ABSENT, "input", "main", "target", Site("m.onnx"))
    (match,) = lang.matches(lang.rule("{value: '**', role: input, shape: {any: {dim: symbolic}}}"), value)
    assert (match.where.path, match.where.tensor) == ("m.onnx", "x")
    (match,) = lang.matches(lang.rule("{node: Relu}"), lang.node("Relu", ["x"], ["y"]))
    assert match.where.node == "y"
    (match,) = lang.matches(lang.rule("{variable: A}"), Variable("A", "1", "source"))
    assert match.where.variable == "A"


# Fingerprints


def marks(lang, rule, *facts):
    return [match.fingerprint for match in lang.matches(rule, *facts)]


def test_a_fingerprint_survives_moving_and_other_code(lang):
    rule = lang.rule("{call: f}")
    scopes = [lang.scope(0, "module", ""), lang.scope(1, "function", "run", 0)]
    before = marks(lang, rule, *scopes, lang.call("f", {0: 1}, scope=1, line=5))
    after = marks(lang, rule, *scopes, lang.call("g", line=1), lang.call("f", {0: 1}, scope=1, line=50, order=9))
    assert before == after
    assert len(before[0]) == 16


@pytest.mark.parametrize(
    "other",
    [{"args": {0: 2}}, {"path": "b.py"}, {"scope": 0}, {"side": "target"}, {"assigned": "y"}],
)
def test_a_fingerprint_tells_findings_apart(lang, other):
    rule = lang.rule("{call: f}")
    scopes = [lang.scope(0, "module", ""), lang.scope(1, "function", "run", 0)]
    one = marks(lang, rule, *scopes, lang.call("f", **{"args": {0: 1}, "scope": 1}))
    two = marks(lang, rule, *scopes, lang.call("f", **{"args": {0: 1}, "scope": 1, **other}))
    assert one != two


def test_equal_findings_are_numbered(lang):
    rule = lang.rule("{call: f}")
    one = marks(lang, rule, lang.call("f"))
    two = marks(lang, rule, lang.call("f"), lang.call("f", line=2))
    assert two[0] == one[0]
    assert len(set(two)) == 2


def test_a_graph_is_the_same_wherever_its_file_lies(lang):
    rule = lang.rule("{node: Conv}")
    node = {"inputs": ["x"], "outputs": ["y"], "name": "c", "attributes": {"group": 1, "pads": (1, 1)}}
    here = marks(lang, rule, lang.node("Conv", path="/tmp/1/m.onnx", **node))
    assert here == marks(lang, rule, lang.node("Conv", path="/tmp/2/m.onnx", **node))
    assert here != marks(lang, rule, lang.node("Conv", path="/tmp/2/m.onnx", **{**node, "attributes": {"group": 2}}))


def test_the_order_of_the_facts_changes_nothing(lang):
    rules, _ = parse_rules(lang.text("[{call: 'lib.*'}, {node: Conv}]"))
    other, _ = parse_rules(lang.text("{call: lib.a}").replace("TST-001", "TST-002"))
    facts = [lang.call(f"lib.{name}", line=line, order=line) for line, name in enumerate("abcabc")]
    facts += [lang.node("Conv", name=f"c{number}") for number in range(5)]

    def shown(facts):
        matches = match_rules(RuleSet((*rules, *other)), FactStore(facts), source="", target="")
        return [(m.rule.id, m.where, m.message, m.fingerprint) for m in matches]

    shuffled = random.Random(1).sample(facts, len(facts))
    assert shown(facts) == shown(shuffled)
    assert len(shown(facts)) == 13


def test_work_grows_with_candidates_not_with_rules_times_facts(lang, monkeypatch):
    """Count how often any condition is asked: for 200 rules over 2,000 calls it must be the number of candidates."""
    asked = []
    monkeypatch.setattr("tensoraudit.language.engine.ask", lambda conditions, fact, context: asked.append(fact) or YES)
    rules = [parse_rules(lang.text(f"{{call: lib.f{n}}}").replace("TST-001", f"TST-{n}"))[0][0] for n in range(200)]
    facts = [lang.call(f"lib.f{n}", line=n) for n in range(2_000)]
    matches = match_rules(RuleSet(tuple(rules)), FactStore(facts), source="", target="")
    assert len(matches) == 200
    assert len([fact for fact in asked if fact is not None]) == 200


def test_constants_are_found_among_all_values(lang):
    facts = [
        lang.value("a"),
        lang.value("b", constant=5),
        lang.value("c", constant=Unknown("large")),
        lang.value("d", constant=1),
    ]
    rule = lang.rule('{value: "**", constant: {gt: 2}}')
    assert [(m.anchor.name, m.state) for m in lang.matches(rule, *facts)] == [("b", "certain"), ("c", "suspected")]
