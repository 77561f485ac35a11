"""basic-pitch: its SavedModel against its ONNX file, right and with one kernel changed by 1 %."""

import importlib.util
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tensoraudit.audit.localise_by_value import Search, look_at
from tensoraudit.audit.localise_sides import Side
from tensoraudit.probes.limits import Limits
from tensoraudit.probes.pool import Pool

VARIABLE = "TENSORAUDIT_TF_PYTHON"
SOUND = (0.3 * np.random.default_rng(0).standard_normal((1, 43844, 1))).astype(np.float32)

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("basic_pitch") is None or not os.environ.get(VARIABLE),
    reason=f"needs basic-pitch (requirements/real-models.txt) and {VARIABLE}",
)


@pytest.fixture(scope="module")
def models():
    [package] = importlib.util.find_spec("basic_pitch").submodule_search_locations
    return Path(package) / "saved_models" / "icassp_2022"


@pytest.fixture(scope="module")
def pool():
    with Pool(Limits(timeout=600), {"tensorflow": os.environ[VARIABLE]}, threads=1) as workers:
        yield workers


@pytest.fixture(scope="module")
def search(models, pool, tmp_path_factory):
    """The search of a copy of the ONNX file in which one Conv, by its place, has a kernel of its own, 1 % too large."""
    spec = {"format": "saved_model", "path": str(models / "nmp"), "module": None, "attribute": None, "trust": False}
    reference = Side("tensorflow", {"model": {**spec, "code": [], "seed": 0}}, {"input_2": SOUND})
    folder = tmp_path_factory.mktemp("changed")

    def run(place):
        model, name = onnx.load(models / "nmp.onnx"), ""
        if place is not None:
            conv = [node for node in model.graph.node if node.op_type == "Conv"][place]
            kernel = next(each for each in model.graph.initializer if each.name == conv.input[1])
            changed = numpy_helper.from_array(numpy_helper.to_array(kernel) * np.float32(1.01), "changed")
            model.graph.initializer.append(changed)
            conv.input[1], name = "changed", conv.name
        path = folder / f"{place}.onnx"
        onnx.save(model, path)
        candidate = Side("onnxruntime", {"path": str(path)}, {"serving_default_input_2:0": SOUND})
        searched = Search(pool, *look_at(pool, reference, candidate))
        found = searched.run([])
        searched.judge.close()
        return found, name

    return run


def test_the_right_file_has_no_region(search):
    assert search(None)[0] is None


@pytest.mark.parametrize(
    ("place", "layer"),
    [
        (26, "conv2d_4"),
        (27, "conv2d_1"),
        (28, "contours-reduced"),
        (29, "conv2d_2"),
        (31, "conv2d_5"),
        (5, "cq_t2010v2_1"),
    ],
)
def test_the_changed_convolution_is_named_on_both_sides(search, place, layer):
    found, name = search(place)
    assert found.candidate.node == name
    assert found.reference.module.endswith(f"/{layer}") and found.reference.op == "Conv2D"
    assert found.error > 0
