from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pytest

from tensoraudit.probes import protocol
from tensoraudit.probes.protocol import JobFailed, JobUnsupported, LocalSession, ProtocolError, decode, encode


def test_a_message_is_one_line_and_comes_back() -> None:
    message = {"id": 3, "text": "a\nb\u2028ü", "sizes": [1, 2.5, None, True]}
    line = encode(message)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode(line) == message


def test_numpy_scalars_count_as_plain() -> None:
    assert decode(encode({"a": np.int64(3), "b": np.float32(0.5), "c": np.bool_(True)})) == {
        "a": 3,
        "b": 0.5,
        "c": True,
    }


@pytest.mark.parametrize("value", [object(), np.zeros(3), {1, 2}, b"bytes"])
def test_what_is_not_plain_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="not plain JSON"):
        encode({"value": value})


@pytest.mark.parametrize(
    "line", [b"hi\n", b"\n", b"[1]\n", b"3\n", b"null\n", b"\xff\xfe\n", b"[" * 100_000, b"{'a': 1}"]
)
def test_a_line_that_is_no_object_is_not_the_protocol(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(line)


def test_a_job_can_be_called_without_a_worker(tmp_path: Path) -> None:
    def job(params: dict[str, object], session: protocol.Session) -> dict[str, object]:
        session.progress("adding")
        return {"y": session.put(session.get(params["x"]) + 1)}  # type: ignore[arg-type]

    session = LocalSession(tmp_path)
    result = job({"x": session.put(np.arange(3))}, session)
    assert session.get(result["y"]).tolist() == [1, 2, 3]  # type: ignore[arg-type]
    assert session.messages == ["adding"]
    assert session.cache == {}


def test_progress_is_short(tmp_path: Path) -> None:
    session = LocalSession(tmp_path)
    session.progress("x" * 10_000)
    assert session.messages == ["x" * 500]


def test_a_session_refuses_strings_as_unsupported(tmp_path: Path) -> None:
    with pytest.raises(JobUnsupported, match="<U1"):
        LocalSession(tmp_path).put(np.array(["a"]))


def test_a_full_disk_fails_the_job_and_says_what_to_do(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(JobFailed, match="TMPDIR"):
            LocalSession(tmp_path).put(np.zeros(1000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_each_job_writes_under_its_own_prefix(tmp_path: Path) -> None:
    session = LocalSession(tmp_path)
    session.begin("j7")
    assert session.put(np.zeros(1))["file"] == "j7-1.bin"
    assert session.put(np.zeros(1))["file"] == "j7-2.bin"


def test_refusals_keep_their_details() -> None:
    refusal = JobFailed("no", stage="export")
    assert (refusal.status, str(refusal), refusal.details) == ("failed", "no", {"stage": "export"})
    assert JobUnsupported("no").status == "unsupported"
