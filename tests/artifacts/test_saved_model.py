"""SavedModel folders: signatures and operators from the file alone; what touches files needs trust."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensoraudit.artifacts.identify import identify
from tensoraudit.artifacts.saved_model import read_saved_model
from tensoraudit.artifacts.state import require_model
from tensoraudit.errors import InputError

MODELS = Path(__file__).parents[2] / "fixtures" / "tensorflow"
AFFINE = (MODELS / "affine" / "saved_model.pb").read_bytes()


def field(number, content):
    """A length-delimited field."""
    size, head = len(content), [number << 3 | 2]
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*head, size]) + content


def node(operator, name="n"):
    return field(1, name.encode()) + field(2, operator.encode())


def function(name, *operators):
    return field(1, field(1, name.encode())) + b"".join(field(3, node(each)) for each in operators)


def saved(tmp_path, graph, *rest):
    meta = field(1, field(4, b"serve") + field(5, b"2.21.0")) + field(2, graph) + b"".join(rest)
    (tmp_path / "saved_model.pb").write_bytes(b"\x08\x01" + field(2, meta))
    return str(tmp_path)


def test_signatures_and_operators():
    artifact = identify(str(MODELS / "affine"))
    assert (artifact.format, artifact.framework, artifact.imports) == ("saved_model", "tensorflow", ())
    serving = artifact.details["signatures"]["serving_default"]
    assert serving["inputs"] == {"x": ("float32", [None, 4])}
    assert serving["outputs"] == {"y": ("float32", [None, 3]), "total": ("float32", [None])}
    assert artifact.details["tensorflow_version"] == "2.21.0"
    assert (artifact.details["operators"]["MatMul"], artifact.details["operators"]["Sum"]) == (1, 1)
    require_model(artifact, None, False)


def test_a_graph_that_reads_files_needs_trust():
    artifact = identify(str(MODELS / "reads_files"))
    assert artifact.imports == ("ReadFile",)
    with pytest.raises(InputError, match=r"whose operators use files.*asks for ReadFile.*--trust"):
        require_model(artifact, None, False)
    require_model(artifact, None, True)


@pytest.mark.parametrize(
    ("graph", "unsafe"),
    [
        (field(1, node("MatMul")), set()),
        (field(1, node("WriteFile")), {"WriteFile"}),
        (field(2, field(1, function("__inference_f_1", "ReadFile"))), {"ReadFile"}),
        (field(2, field(1, function("__inference__traced_save_9", "SaveV2", "MergeV2Checkpoints"))), set()),
        (field(2, field(1, function("__inference_f_1", "SaveV2"))), {"SaveV2"}),
        (field(2, field(1, function("f", "Add") + field(1, field(1, b"__inference__traced_save_9")))), set()),
        (field(1, node("RestoreV2", "save/RestoreV2")), set()),
        (field(1, node("RestoreV2", "logits")), {"RestoreV2"}),
        (field(1, node("Add") + field(2, b"WriteFile")), {"WriteFile"}),
        (field(1, node("PrintV2") + field(5, b"file:///home/x")), {"PrintV2"}),
        (field(1, node("PrintV2") + field(5, b"stderr")), set()),
        (field(1, node("InitializeTableFromTextFileV2")), {"InitializeTableFromTextFileV2"}),
        (field(1, node("LoadAndRemapMatrix")), {"LoadAndRemapMatrix"}),
        (field(1, node("DumpTensor")), {"DumpTensor"}),
        (field(2, field(1, function("while_body_7", "ExperimentalCSVDataset"))), {"ExperimentalCSVDataset"}),
        (field(2, field(1, function("f", "DataServiceDatasetV4", "Snapshot"))), {"DataServiceDatasetV4"}),
    ],
)
def test_which_operators_use_files(tmp_path, graph, unsafe):
    saved(tmp_path, graph)
    assert read_saved_model(tmp_path).unsafe == unsafe


def test_a_table_may_read_an_asset_of_the_model(tmp_path):
    saved(tmp_path, field(1, node("InitializeTableFromTextFileV2")), field(6, field(2, b"vocabulary.txt")))
    assert read_saved_model(tmp_path).unsafe == set()


def test_every_graph_counts_whichever_is_loaded(tmp_path):
    safe, unsafe = (field(2, field(2, field(1, node(each)))) for each in ("MatMul", "ReadFile"))
    (tmp_path / "saved_model.pb").write_bytes(b"\x08\x01" + safe + unsafe)
    assert read_saved_model(tmp_path).unsafe == {"ReadFile"}


@pytest.mark.parametrize("cut", [1, 2, 7, 100, len(AFFINE) // 2, len(AFFINE) - 1])
def test_a_truncated_file(tmp_path, cut):
    (tmp_path / "saved_model.pb").write_bytes(AFFINE[:cut])
    with pytest.raises(InputError, match=r"damaged or truncated|holds no graph"):
        identify(str(tmp_path))


def test_a_file_of_another_kind(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"PK\x03\x04 no protobuf at all")
    with pytest.raises(InputError, match="damaged or truncated SavedModel"):
        identify(str(tmp_path))


@settings(max_examples=200, deadline=5_000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_changed_bytes_give_an_answer_or_an_input_error(tmp_path, data):
    changed = bytearray(AFFINE)
    for _ in range(data.draw(st.integers(1, 8))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "saved_model.pb").write_bytes(changed)
    try:
        assert identify(str(tmp_path)).format == "saved_model"
    except InputError as error:
        assert error.remedy
