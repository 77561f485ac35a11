from __future__ import annotations

import io
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from tensoraudit.artifacts.identify import identify
from tensoraudit.artifacts.zips import SafeZip, ZipLimits
from tensoraudit.errors import InputError


def archive(entries: dict[str, bytes], comment: bytes = b"", method: int = zipfile.ZIP_STORED) -> memoryview:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        for name, content in entries.items():
            file.writestr(name, content)
        file.comment = comment
    return memoryview(out.getvalue())


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("comment", [b"", b"hello"])
def test_an_honest_archive(method: int, comment: bytes) -> None:
    found = SafeZip(archive({"m/data.pkl": b"abc" * 50, "m/data/0": b""}, comment, method), "m.pt")
    assert found.prefix == "m/"
    assert found.names == ("data.pkl", "data/0")
    assert "DATA.pkl" in found and "m/data.pkl" not in found
    assert found.read("data.pkl") == b"abc" * 50 == bytes(found.view("data.pkl"))
    assert found.size("data.pkl") == 150
    assert (found.span("data.pkl") is None) == (method == zipfile.ZIP_DEFLATED)


def test_a_stored_entry_is_seen_where_it_lies() -> None:
    view = archive({"a.bin": b"first", "b.bin": b"second"})
    found = SafeZip(view, "x.zip")
    span = found.span("b.bin")
    assert span is not None and bytes(view[span[0] : span[0] + span[1]]) == b"second"
    assert found.prefix == ""


def test_zip64_as_torch_writes_it() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file, file.open("m/big", "w", force_zip64=True) as entry:
        entry.write(b"x" * 1000)
    assert SafeZip(memoryview(out.getvalue()), "m.pt").read("big") == b"x" * 1000


def test_reading_is_limited() -> None:
    found = SafeZip(archive({"a": bytes(100)}), "x.zip")
    with pytest.raises(InputError, match="100 bytes, more than the 99"):
        found.read("a", limit=99)
    with pytest.raises(InputError, match="has no entry 'b'"):
        found.read("b")


def test_a_flipped_bit_in_a_deflated_entry_is_damage() -> None:
    data = bytearray(archive({"a": b"abcdef" * 100}, method=zipfile.ZIP_DEFLATED))
    data[40] ^= 0x55
    with pytest.raises(InputError, match="damaged"):
        SafeZip(memoryview(bytes(data)), "x.zip").read("a")


def test_the_limits_are_the_callers() -> None:
    zeros = archive({"a": bytes(4 << 20)}, method=zipfile.ZIP_DEFLATED)
    assert SafeZip(zeros, "x", ZipLimits(ratio=1_100)).size("a") == 4 << 20
    with pytest.raises(InputError, match="unpacks to 4,194,304 bytes"):
        SafeZip(zeros, "x", ZipLimits(ratio=1_100, inflated=1 << 20))
    with pytest.raises(InputError, match="zip directory of"):
        SafeZip(zeros, "x", ZipLimits(directory=10))


@pytest.mark.parametrize("name", ["/a", "\\a", "C:\\a", "c:a", "../a", "a/../../b", "a\\..\\b", "a/.."])
def test_names_that_lead_out(name: str) -> None:
    with pytest.raises(InputError, match="leads out"):
        SafeZip(archive({name: b""}), "x.zip")


def test_bytes_before_the_archive_are_refused() -> None:
    """zipfile would find the entries, miniz would not: they would read different files."""
    with pytest.raises(InputError, match="not where its end record says"):
        SafeZip(memoryview(b"PK\x03\x04" + bytes(archive({"a": b""}))), "x.zip")


def test_an_unknown_method_and_two_sizes() -> None:
    with pytest.raises(InputError, match="packed by method 14"):
        SafeZip(archive({"a": b"x" * 99}, method=zipfile.ZIP_LZMA), "x.zip")
    data = bytearray(archive({"a": b"12345678"}))
    at = data.rindex(b"PK\x01\x02")
    data[at + 20] = 7  # the compressed size
    with pytest.raises(InputError, match="declares two sizes"):
        SafeZip(memoryview(bytes(data)), "x.zip")


def test_a_comment_that_looks_like_an_end_record_is_refused() -> None:
    with pytest.raises(InputError, match="zip archive"):
        SafeZip(archive({"a": b""}, b"hello PK\x05\x06"), "x.zip")


def test_an_empty_archive() -> None:
    assert SafeZip(archive({}), "x.zip").names == ()
    Path("empty.pt").write_bytes(archive({}))
    with pytest.raises(InputError, match="a zip archive that holds no model"):
        identify("empty.pt")


def test_the_case_of_names_does_not_matter_because_it_does_not_to_torch(make: ModuleType) -> None:
    """The reason for refusing names that differ in case only, shown on torch itself."""
    import pickle

    import torch

    evil = ("m/DATA.PKL", pickle.dumps({"other": 1}, 2))
    entries = [("m/data.pkl", make.STATE), make.WEIGHTS, ("m/byteorder", b"little"), ("m/version", b"3\n")]
    seen = set()
    for place in range(len(entries) + 1):
        for more in range(4):
            padding = [(f"m/data/{i + 1}", b"") for i in range(more)]
            data = make.zipped([*entries[:place], evil, *entries[place:], *padding])
            seen |= set(torch.load(io.BytesIO(data), weights_only=True))
            with pytest.raises(InputError, match="twice"):
                SafeZip(memoryview(data), "m.pt")
    assert seen == {"other", "weight"}
