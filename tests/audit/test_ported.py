"""`compare` of a Keras model with its ports to PyTorch and Flax, right ones and wrong ones, in real workers.

The reference runs once for all of them. TENSORAUDIT_TF_PYTHON and TENSORAUDIT_JAX_PYTHON name the interpreters.
"""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tensoraudit.artifacts.identify import identify
from tensoraudit.audit.prepare import told
from tensoraudit.audit.state import Audit
from tensoraudit.errors import InputError
from tensoraudit.options import make_options
from tensoraudit.pipeline import COMPARE
from tensoraudit.probes.limits import Limits
from tensoraudit.probes.pool import Pool
from tensoraudit.report.json import document
from tensoraudit.steps import new_audit, run_steps

FOLDER = Path(__file__).parents[2] / "fixtures" / "ported"
KERAS, TORCH, FLAX = (FOLDER / f"{name}_model.py" for name in ("keras", "torch", "flax"))
PASSES = {"identical", "equivalent", "noise"}
VARIABLES = {"tensorflow": "TENSORAUDIT_TF_PYTHON", "jax": "TENSORAUDIT_JAX_PYTHON"}
ONCE = [step.__name__ for step in COMPARE].index("convert")
"""Where the candidate comes in: what is before it runs once."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(os.environ.get(name) for name in VARIABLES.values()),
        reason=f"set {' and '.join(VARIABLES.values())} to a Python with TensorFlow, JAX and Flax",
    ),
]


@pytest.fixture(scope="module")
def pool():
    interpreters = {name: os.environ[variable] for name, variable in VARIABLES.items()}
    with Pool(Limits(timeout=300, memory=8 << 30), interpreters, threads=1) as workers:
        yield workers


SAMPLES = {"sample-0", "random-0", "batch=1"}
"""Input sets that are run: each size of the batch costs a compilation."""


@pytest.fixture(scope="module")
def one_mode():
    """The reference's other modes are a test of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tensoraudit.audit.modes.MODES", {})
        yield


@pytest.fixture(scope="module")
def references(pool, one_mode):
    """The audit up to the candidate, by the reference."""
    known: dict[str, Audit] = {}

    def call(spec):
        if spec not in known:
            audit = new_audit(make_options({}, folder=FOLDER), spec, f"{TORCH}:make_right").add(pool=pool)
            for step in COMPARE[:ONCE]:
                audit = step(audit)
                audit = replace(audit, samples=tuple(each for each in audit.samples if each.name in SAMPLES))
            known[spec] = audit
        return known[spec]

    return call


@pytest.fixture(scope="module")
def compare(references):
    def call(candidate, reference=f"{KERAS}:make_model", **options):
        audit = references(reference)
        artifact = told(identify(str(candidate)), None)
        given = make_options({"target": artifact.framework, **options}, folder=FOLDER)
        audit = replace(audit, options=given, against=str(candidate), candidate_artifact=artifact)
        return document(run_steps(COMPARE[ONCE:], audit))

    return call


def rows(report):
    return [row for row in report["equivalence"] if row["candidate"].startswith("candidate@")]


def findings(report):
    return {each["rule"]: each for each in report["findings"]}


def assert_right(report):
    (grade,) = report["grade"].values()
    assert (grade, report["exit_code"], report["findings"]) == ("A", 0, [])
    assert len(rows(report)) == len(SAMPLES) and {row["verdict"] for row in rows(report)} <= PASSES


@pytest.mark.parametrize("factory", ["make_right", "make_right_rows", "make_batchnorm_momentum"])
def test_a_right_port_to_pytorch_is_clean_and_its_layout_is_named(compare, factory):
    report = compare(f"{TORCH}:{factory}")
    assert_right(report)
    told = "input image is given to the candidate after transpose (0, 3, 1, 2) of the reference's layout, the layout of"
    assert [note for note in report["notes"] if note.startswith("input")] == [f"{told} PyTorch"]


@pytest.mark.parametrize("factory", ["make_right", "make_batchnorm_momentum"])
def test_a_right_port_to_flax_is_clean_in_the_same_layout(compare, factory):
    report = compare(f"{FLAX}:{factory}")
    assert_right(report)
    assert not any("transpose" in note for note in report["notes"])


WRONG = {
    "make_padding_symmetric": (
        "EQV-031",
        "conv",
        "pads symmetrically [(1, 1), (1, 1)]; the reference pads [(0, 1), (0, 1)]",
    ),
    "make_flatten_order": ("EQV-032", "dense", "flattened with the channels first"),
    "make_batchnorm_epsilon": ("EQV-030", "norm", "sqrt(variance + 1e-05), the reference by sqrt(variance + 0.001)"),
    "make_gate_order": ("EQV-033", "gru", "takes the reference's gates r, z, n for z, r, n"),
    "make_reset_after": (
        "EQV-034",
        "gru",
        "applies the reset gate before it, the reference after the recurrent product",
    ),
    "make_gelu_tanh": ("EQV-035", "dense", "has gelu (tanh) before it, the reference gelu (erf)"),
    "make_dense_not_transposed": ("EQV-036", "head", "multiplies with the transpose of the reference's kernel"),
}


@pytest.mark.parametrize("file", [TORCH, FLAX], ids=["torch", "flax"])
@pytest.mark.parametrize("factory", WRONG)
def test_a_wrong_port_is_diagnosed_by_its_cause(compare, file, factory):
    rule, layer, words = WRONG[factory]
    report = compare(f"{file}:{factory}")
    found = findings(report)
    causes = {name for name in found if name not in {"EQV-001", "EQV-002", "EQV-004"}}
    assert causes == {rule}, report["findings"]
    assert found[rule]["state"] == "confirmed" and report["exit_code"] == 1
    assert (
        found[rule]["message"].startswith(f"Layer '{layer}': the candidate's {layer} ")
        and words in found[rule]["message"]
    )
    assert found[rule]["where"]["path"] == file.name and found[rule]["where"]["line"]
    divergence = next(each for name, each in found.items() if name in {"EQV-001", "EQV-002"})
    assert rule in divergence["causes"]
    first = next(row["first_divergence"] for row in rows(report) if row["first_divergence"])
    assert first["candidate_node"]


def test_a_changed_weight_is_named_with_its_size(compare):
    found = findings(compare(f"{TORCH}:make_weight_changed"))["EQV-037"]
    assert "conv.weight is 1 % away from ported/conv/kernel" in found["message"]


def test_a_transfer_makes_untrained_ports_comparable_and_says_what_it_did(compare, tmp_path):
    report = compare(f"{TORCH}:make_untrained", transfer=True)
    assert_right(report)
    told = [note for note in report["notes"] if note.startswith("--transfer")]
    assert told[0].startswith("--transfer copied 14 parameters of the reference: 7 as they are (conv.bias, ")
    assert "--transfer copied after transpose [3, 2, 0, 1]: conv.weight" in told
    assert told[-1] == "--transfer left in the candidate: norm.num_batches_tracked"
    assert findings(compare(f"{TORCH}:make_untrained"))


def test_a_transfer_splits_the_gates_for_flax(compare):
    report = compare(f"{FLAX}:make_untrained", transfer=True)
    assert_right(report)
    assert any("the sum of 2 parts" in note and note.endswith("params/gru/ir/bias") for note in report["notes"])


def test_a_transfer_into_a_cell_of_unknown_gates_is_refused(compare):
    with pytest.raises(
        InputError, match=r"4 parameters of the candidate cannot be paired: gru\.weight_ih_l0, "
    ) as refusal:
        compare(f"{TORCH}:make_cell_untrained", transfer=True)
    assert "--write-map" in refusal.value.remedy


def test_the_draft_of_a_map_gives_the_same_result(compare, tmp_path):
    draft = tmp_path / "map.yaml"
    first = compare(f"{TORCH}:make_right", write_map=str(draft))
    content = yaml.safe_load(draft.read_text())
    assert content["inputs"] == {"image": {"name": "image", "transpose": [0, 3, 1, 2]}}
    assert content["outputs"] == {"output": "output"}
    assert content["parameters"]["ported/conv/kernel"] == {"name": "conv.weight", "transpose": [3, 2, 0, 1]}
    assert len(content["parameters"]) == 13
    again = compare(f"{TORCH}:make_right", map=str(draft))
    assert_right(again)
    assert [row["linf"] for row in rows(again)] == [row["linf"] for row in rows(first)]
    moved = compare(f"{TORCH}:make_untrained", map=str(draft), transfer=True)
    assert_right(moved)


def test_a_map_with_a_wrong_name_is_refused(compare, tmp_path):
    path = tmp_path / "map.yaml"
    path.write_text("inputs: {picture: image}\n")
    with pytest.raises(InputError, match="the reference has no input 'picture'"):
        compare(f"{TORCH}:make_right", map=str(path))
    path.write_text("parameters: {ported/conv/kernel: nothing}\n")
    with pytest.raises(InputError, match="the candidate has no parameter 'nothing'"):
        compare(f"{TORCH}:make_untrained", map=str(path), transfer=True)


def test_pytorch_is_a_reference_for_keras_too(compare):
    report = compare(f"{KERAS}:make_model", f"{TORCH}:make_right")
    assert_right(report)
    assert any("after transpose (0, 2, 3, 1)" in note and note.endswith("TensorFlow") for note in report["notes"])
