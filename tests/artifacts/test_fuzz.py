"""Whatever bytes a file holds: an answer or an InputError, at once, and nothing that it says is done."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensoraudit.artifacts.identify import identify
from tensoraudit.artifacts.inputs import load_samples
from tensoraudit.artifacts.pickle_interpreter import interpret
from tensoraudit.artifacts.pickle_nodes import Wishes
from tensoraudit.artifacts.pickle_stream import BrokenPickleError, Stream
from tensoraudit.artifacts.pickles import describe_pickle
from tensoraudit.artifacts.state import require_model
from tensoraudit.errors import InputError
from tensoraudit.extract.onnx import graph_inputs, read_onnx

FIXTURES = Path(__file__).parents[2] / "fixtures" / "broken"
MODELS = Path(np.__file__).parents[1] / "onnx/backend/test/data"


def samples(save: Callable[..., None]) -> bytes:
    out = io.BytesIO()
    save(out, a=np.arange(6).reshape(2, 3), b=np.ones(4, np.float32))
    return out.getvalue()


SEEDS = [
    path.read_bytes() for path in sorted(FIXTURES.iterdir()) if path.suffix != ".py" and path.stat().st_size < 8_000
]
SEEDS += [path.read_bytes() for path in sorted(MODELS.rglob("*.onnx"))[::4] if path.stat().st_size < 8_000]
SEEDS += [samples(np.savez), samples(np.savez_compressed)]
SEEDS += [path.read_bytes() for path in sorted((FIXTURES.parent / "tensorflow").iterdir()) if path.is_file()]

READERS: list[Callable[[str], Any]] = [
    lambda path: require_model(identify(path), None, False),
    read_onnx,
    graph_inputs,
    load_samples,
]
SETTINGS = settings(
    max_examples=200,
    deadline=5_000,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def check(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    for read in READERS:
        with contextlib.suppress(InputError):
            read(str(path))
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@SETTINGS
@given(st.data())
def test_flipped_bytes(tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(data.draw(st.sampled_from(SEEDS)))
    if content:
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    check(tmp_path / data.draw(st.sampled_from(["m.onnx", "m.pt"])), bytes(content))
    next(tmp_path.iterdir()).unlink()


@SETTINGS
@given(st.data())
def test_truncated_and_spliced(tmp_path: Path, data: st.DataObject) -> None:
    content = data.draw(st.sampled_from(SEEDS))
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, len(content)))
    check(tmp_path / "m.onnx", content[:start] + data.draw(st.binary(max_size=12)) + content[end:])


@SETTINGS
@given(
    st.binary(max_size=300), st.sampled_from([b"", b"PK\x03\x04", b"\x80\x02", b"\x08\x08\x3a", b"\x93NUMPY\x01\x00"])
)
def test_random_bytes(tmp_path: Path, content: bytes, head: bytes) -> None:
    check(tmp_path / "m.onnx", head + content)


OPCODES = st.sampled_from(
    [b"(", b")", b"]", b"}", b"N", b"K\x01", b"0", b"1", b"2", b"a", b"e", b"s", b"u", b"t", b"\x85", b"\x86", b"\x87",
     b"R", b"b", b"o", b"Q", b"\x81", b"\x8f", b"\x90", b"\x91", b"\x92", b"\x93", b"\x94", b"h\x00", b"q\x00", b"d",
     b"l", b"X\x01\x00\x00\x00a", b"\x8c\x02os", b"\x8c\x06system", b"cposix\nsystem\n", b"\x8c\x0btouch pwned",
     b"ctorch._utils\n_rebuild_tensor_v2\n", b"ctorch\nFloatStorage\n", b"ccollections\nOrderedDict\n",
     b"\x8c\x07storage", b"\x82\x01", b"(iposix\nsystem\n"],
)  # fmt: skip


@settings(max_examples=600, deadline=5_000)
@given(st.lists(OPCODES, max_size=40))
def test_programs_of_real_opcodes(codes: list[bytes]) -> None:
    """Pickles that get further than random bytes do: they are read or refused, and every global in them is listed."""
    wishes = Wishes()
    program = b"".join(codes) + b"."
    try:
        root = interpret(Stream(memoryview(program)), wishes)
    except BrokenPickleError:
        return
    found = describe_pickle(root, wishes)
    assert found.kind in ("state_dict", "pickled_module", "tensor", "object")
    assert ("posix.system" in found.imports) == (b"posix" in program)
    assert (b"\x93" in program) <= bool(found.all_imports)


@pytest.mark.parametrize("content", [b"PK\x03\x04" * 1000, b"\x08" * 1000, b"\x80\x02" + b"(" * 1000, b"\x0a" * 1000])
def test_repetition(tmp_path: Path, content: bytes) -> None:
    check(tmp_path / "m.onnx", content)
