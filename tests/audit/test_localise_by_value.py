"""Localisation between two sides without common names: the wrong layer is named on both, a right port is not blamed."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from tensoraudit.audit.localise_by_value import Search, look_at
from tensoraudit.audit.localise_sides import Side, survey
from tensoraudit.probes.pool import Pool

SPEC = importlib.util.spec_from_file_location("localise_graphs", Path(__file__).parent / "localise_graphs.py")
localise_graphs = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(localise_graphs)

FILE = Path(__file__).parents[2] / "fixtures" / "localise" / "small_models.py"
IMAGE = np.random.default_rng(3).normal(size=(2, 3, 11, 13)).astype(np.float32)
FAULTS = {
    "right": {},
    "epsilon": {"epsilon": 1e-5},
    "gelu": {"tanh_gelu": True},
    "weight": {"scale": 1.01},
}


def spec(name):
    plain = {"format": "python_object", "module": None, "trust": False, "code": [], "seed": 0}
    return {"model": {**plain, "path": str(FILE), "attribute": name}}


@pytest.fixture(scope="module")
def models():
    from runpy import run_path

    return run_path(str(FILE))


@pytest.fixture(scope="module")
def pool():
    with Pool(threads=1) as workers:
        yield workers


@pytest.fixture(scope="module")
def search(pool, models, tmp_path_factory):
    """The search of one port of `Small`."""
    folder = tmp_path_factory.mktemp("ports")

    def make(fault, memory=2 << 30):
        path = localise_graphs.write_small(models["make_small"](), folder / f"{fault}.onnx", **FAULTS[fault])
        reference = Side("pytorch", spec("make_small"), {"image": IMAGE}, memory)
        candidate = Side("onnxruntime", {"path": str(path)}, {"image": IMAGE}, memory)
        return Search(pool, *look_at(pool, reference, candidate))

    return make


def test_a_right_port_has_no_region(search):
    assert search("right").run(["output"]) is None


@pytest.mark.parametrize(
    ("fault", "module", "line", "node"),
    [
        ("epsilon", "norm", "functional.gelu(self.norm", "n1"),
        ("gelu", "", "functional.gelu(self.norm", "n2"),
        ("weight", "inner", "torch.tanh(self.inner(x))", "n3"),
    ],
)
def test_the_wrong_operation_is_named_on_both_sides(search, fault, module, line, node):
    found = search(fault).run(["output"])
    assert (found.reference.module, found.candidate.node) == (module, node)
    assert line in FILE.read_text().splitlines()[found.reference.line - 1]
    assert found.pair == (found.reference, found.candidate)
    assert found.error == pytest.approx(np.abs(found.array - found.view).max(), rel=1e-6)
    assert found.error > 1e-4


def test_the_values_in_front_of_the_fault_are_the_agreed_ones(search):
    found = search("weight").run(["output"])
    assert list(found.front) == ["v2"]
    assert found.front["v2"].startswith("#0:aten.gelu")


def test_above_the_memory_only_fingerprints_travel_and_the_answer_is_the_same(search):
    whole, small = search("epsilon"), search("epsilon", memory=8)
    inputs = {"input:image", "img"}
    assert len(whole.reference.refs) > 5 and len(whole.candidate.refs) > 5
    assert small.reference.refs.keys() | small.candidate.refs.keys() == inputs
    assert [v.print for v in small.candidate.values] == [v.print for v in whole.candidate.values]
    a, b = whole.run(["output"]), small.run(["output"])
    assert (a.reference, a.candidate) == (b.reference, b.candidate)


def test_unknown_output_names_count_as_all_outputs(search):
    assert search("gelu").run(["no such output"]).candidate.node == "n2"


@pytest.mark.slow
def test_500_intermediates_above_the_memory_are_searched_in_chunks(pool, models, tmp_path):
    """33 MB of intermediates a side, under 8 MiB for everything: fingerprints, then only the few suspicious tensors."""
    path = localise_graphs.write_deep(models["make_deep"](), tmp_path / "deep.onnx", faulty=41)
    image = np.random.default_rng(0).normal(size=(1, 64, 16, 16)).astype(np.float32)
    reference = Side("pytorch", spec("make_deep"), {"image": image}, 8 << 20)
    candidate = Side("onnxruntime", {"path": str(path)}, {"image": image}, 8 << 20)
    first, second = look_at(pool, reference, candidate)
    total = 4 * sum(np.prod(value.shape) for value in first.values)
    assert len(first.values) > 500 and total > 3 * reference.memory
    assert sum(4 * np.prod(ref["shape"]) for ref in first.refs.values()) <= reference.budget + image.nbytes
    looking = Search(pool, first, second)
    found = looking.run(["output"])
    assert (found.reference.module, found.candidate.node) == ("convs.41", "conv41")
    assert len(looking.judge.known) < 60, "the suspicious ones only"


def test_a_worker_that_fails_says_why(pool, tmp_path):
    seen = survey(pool, Side("onnxruntime", {"path": str(tmp_path / "gone.onnx")}, {"image": IMAGE}))()
    assert seen.outcome.status == "failed" and "gone.onnx" in seen.outcome.reason
