"""TensorFlow Lite files, read without TensorFlow: facts against what the fixtures were made of, and hostile bytes."""

import struct
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensoraudit.artifacts.identify import identify
from tensoraudit.artifacts.state import require_model
from tensoraudit.artifacts.tflite import parse
from tensoraudit.artifacts.tflite_operators import CUSTOM, OPERATORS, TYPES
from tensoraudit.errors import InputError

MODELS = Path(__file__).parents[2] / "fixtures" / "tflite"
FILES = {path.stem: path.read_bytes() for path in sorted(MODELS.glob("*.tflite"))}


def table(fields):
    """A table and its list of fields, with the table's own place: numbers stand in it as 4 or 8 bytes."""
    places, body = [0] * (max(fields, default=-1) + 1), b""
    for number, value in fields.items():
        places[number] = 4 + len(body)
        body += value
    head = struct.pack("<HH", 4 + 2 * len(places), 4 + len(body)) + struct.pack(f"<{len(places)}H", *places)
    head += b"\0" * (-len(head) % 4)
    return head, body


def built(fields, after=b""):
    """A file of one table. A field may be a function of the place of its own bytes, for the distance to `after`."""
    plain = {number: value if isinstance(value, bytes) else b"\0" * 4 for number, value in fields.items()}
    head, _ = table(plain)
    start = 8 + len(head)
    inner = start + 4
    end = inner + sum(map(len, plain.values()))
    body, place = b"", inner
    for value in fields.values():
        body += value if isinstance(value, bytes) else struct.pack("<I", value(place, end) % 2**32)
        place += 4 if not isinstance(value, bytes) else len(value)
    return struct.pack("<I", start) + b"TFL3" + head + struct.pack("<i", len(head)) + body + after


def behind(place, end):
    return end - place


def test_what_a_file_says_of_itself():
    artifact = identify(str(MODELS / "affine.tflite"))
    assert (artifact.format, artifact.framework, artifact.imports) == ("tflite", "tflite", ())
    details = artifact.details
    assert (details["version"], details["graphs"], details["nodes"], details["variables"]) == (3, 1, 2, 0)
    assert details["operators"] == {"SUM": 1, "FULLY_CONNECTED": 1} and details["signature"] == "serving_default"
    assert details["inputs"] == [{"name": "x", "dtype": "float32", "shape": [None, 4], "made_with": [1, 4]}]
    assert [(each["name"], each["shape"]) for each in details["outputs"]] == [("total", [None]), ("y", [None, 3])]
    assert details["weight_bytes"] >= 4 * (12 + 3)
    require_model(artifact, None, False)


def test_quantised_ends_have_scale_and_zero_point():
    details = identify(str(MODELS / "quantised.tflite")).details
    assert [each["dtype"] for each in (*details["inputs"], *details["outputs"])] == ["uint8", "int8", "int8"]
    known = details["inputs"][0]["quantisation"]
    assert known["zero_point"] == [0] and abs(known["scale"][0] - 1 / 255) < 1e-5  # the samples lay in [0, 1)


def test_the_kernel_has_a_scale_for_each_channel():
    model = parse(memoryview(FILES["quantised"]))
    kernels = [each for each in model.graphs[0].tensors if each.shape == (5, 3, 3, 3)]
    assert [(len(each.scales), each.axis, each.dtype) for each in kernels] == [(5, 0, "int8")]


def test_custom_operators_and_those_of_tensorflow():
    assert identify(str(MODELS / "custom.tflite")).details["custom"] == ["Erfc"]
    flex = identify(str(MODELS / "flex.tflite")).details
    assert (flex["custom"], flex["flex"]) == ([], ["Erf"])
    counter = identify(str(MODELS / "counter.tflite")).details
    assert counter["graphs"] == 2 and counter["operators"]["VAR_HANDLE"] == 2


def test_operations_name_their_tensors():
    graph = parse(memoryview(FILES["image"])).graphs[0]
    convolution, mean = graph.operators
    assert (convolution.name, mean.name, convolution.custom) == ("CONV_2D", "MEAN", False)
    assert convolution.inputs[0] == graph.inputs[0] and convolution.outputs[0] == mean.inputs[0]


def test_the_tables_of_names():
    assert (OPERATORS[0], OPERATORS[3], OPERATORS[CUSTOM]) == ("ADD", "CONV_2D", "CUSTOM") and CUSTOM == 32
    assert (OPERATORS[127], OPERATORS[142]) == ("PLACEHOLDER_FOR_GREATER_OP_CODES", "VAR_HANDLE")
    assert (TYPES[0], TYPES[3], TYPES[9], TYPES[18]) == ("float32", "uint8", "int8", "bfloat16")


def test_a_file_with_another_name_is_read_all_the_same(tmp_path):
    (tmp_path / "model.onnx").write_bytes(FILES["affine"])
    assert "its content is tflite" in identify(str(tmp_path / "model.onnx")).details["misnamed"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x1c\0\0\0TFL3" + bytes(100), "a list of fields of 0 bytes"),
        (b"\xff\xff\xff\xffTFL3" + bytes(100), "an offset leads to byte 4,294,967,295"),
        (b"\x08\0\0\0TFL3" + struct.pack("<i", 2**31 - 1) + bytes(100), "an offset leads to byte -"),
        (built({0: struct.pack("<I", 3)}), "it holds no graph"),
        (built({2: behind}, struct.pack("<I", 2**30)), "a vector of 1,073,741,824 entries ends behind the file"),
        (built({2: behind}, struct.pack("<II", 1, 0)), "a list of fields of 0 bytes"),  # the entry names itself
    ],
    ids=["zeros", "root outside", "fields before the file", "no graph", "huge vector", "a loop"],
)
def test_files_that_contradict_themselves(tmp_path, data, words):
    path = tmp_path / "model.tflite"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"damaged or truncated TensorFlow Lite model") as caught:
        identify(str(path))
    assert words in str(caught.value) and caught.value.remedy


def test_entries_that_all_name_one_graph_end(tmp_path):
    """A few megabytes that would be read billions of times: each of 10,000 graphs is the same one of 10,000 tensors."""
    many = 10_000
    tensor = b"".join(table({}))
    graph_head, _ = table({0: b"\0" * 4})
    graphs = struct.pack("<I", many)
    first = 4 * many  # from the vector's last entry on: graph, its vector, the tensor
    graph_at = 4 + first + len(graph_head)
    graphs += b"".join(struct.pack("<I", graph_at - 4 - 4 * index) for index in range(many))
    graph = graph_head + struct.pack("<iI", len(graph_head), 4)
    tensors_at = graph_at + 8
    tensor_at = tensors_at + 4 + 4 * many + len(tensor)
    tensors = struct.pack("<I", many)
    tensors += b"".join(struct.pack("<I", tensor_at - tensors_at - 4 - 4 * index) for index in range(many))
    after = graphs + graph + tensors + tensor + struct.pack("<i", len(tensor))
    path = tmp_path / "model.tflite"
    path.write_bytes(built({2: behind}, after))
    started = time.perf_counter()
    with pytest.raises(InputError, match="more entries than any model has"):
        identify(str(path))
    assert time.perf_counter() - started < 60


@pytest.mark.parametrize("name", sorted(FILES))
def test_every_cut_is_said(tmp_path, name):
    whole = FILES[name]
    for cut in range(8, len(whole), 37):
        (tmp_path / "model.tflite").write_bytes(whole[:cut])
        try:
            assert identify(str(tmp_path / "model.tflite")).format == "tflite"
        except InputError as error:
            assert error.remedy


@settings(max_examples=300, deadline=10_000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_changed_bytes_give_an_answer_or_an_input_error(tmp_path, data):
    changed = bytearray(FILES[data.draw(st.sampled_from(sorted(FILES)))])
    for _ in range(data.draw(st.integers(1, 8))):
        changed[data.draw(st.integers(8, len(changed) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "model.tflite").write_bytes(changed)
    try:
        assert identify(str(tmp_path / "model.tflite")).format == "tflite"
    except InputError as error:
        assert error.remedy
