"""Zstandard: a frame of the reference encoder, frames by hand, and whatever bytes there are.

What other encoders and levels make of other data is in tests/checkpoints/test_ocdbt.py.
"""

from __future__ import annotations

import base64
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensoraudit.artifacts.zstd import ZstdError, decompress

MAGIC = b"\x28\xb5\x2f\xfd"
TEXT = b"".join(b"layer.%d.weight: %d\n" % (number % 40, number * 7919 % 97) for number in range(400))
FRAME = base64.b85decode(
    "D77#B0BAKG02*9O3Ko#5k^}n-4ZgIy(b3)&5s?VCvlGSzrU07&n*gE^GOrMpR4gSiU6LGhnNG&h`RI7f&^bf}>5wASg7>L0XJt=r"
    "42p}upqVQR5)*y2C(?bKzJ0VZY(5In8j83qE4Z>y+$5GbLE`+<7{1}DQBD>nJA@g^gnUrvX)4Mg+i^k+1<tb&nHLNHJRaG}xo@iW"
    "2&+a@Q6;opVQW(bQvO6q7{nM!-jICcx+9Ejmq7p!AVC2F1_mfN2nPrTED&%Y90|tG-3+Bkh8RU;10`mcOpaZ?&Kq|fZrtLU!$L<6"
    "5fzeN6icgaN;A!*K4=q^MFib-kcvo8L|@Q{A7L4spJA?L1Zj=Iq9u@<iDjIa`2AkHA=lU@EgCi%g^BD?m`i5ym8f%4NE6h~goI*#"
    "h`ol>Gg9*Kp(=a?t8;2r%8d+<8!<4@pHU`^F+RzAI|(=1YHcJeHrfMW(&!aQLZhp;MyeRKPeC$+LW~F-62C0>!fs=A!Z?fz9Sl7k"
    "CRIvF%BYEVpk_9c^|5_HZ_x#D?iNH7h0!As(HGLMk5yK4DyCJ62(l(vEWurDPDTE!hM_T>gwf#S3^VOA3@ICVQGw@7A)8qHO?aVh"
    "=0Y}43lH;*NRd4BOSK+VMNOxQv;~D{BZ1+c7M4M2uOwkKtR)5<3WbcIbiSsf9Fg@nBE|yuS&*5r5TAH#C&68ttX;yo(OA?8jaS@q"
    "6-qfKN|FXqMw2@<pSkZC+(JRY9R?AKg7hh3ex*)+#!{RI#%z^E#H=savveFM-Z+{V_KzwWh8ovoMXL!FHrY~`AldMuIIr-u<-|go"
    "L&(q*h6g<-Y0Ar!>i7_=!0D_a+hXBw<8?mAO{g&fgB_?6;NtJU0Rr!3Hxf_)4Dk02Pl|7&!ZsbTU2VduoXWWSB^!CLn8FT%`e$AB"
    "$a=dKS#}z;&ZEI#FGALvl|`Y)8q1;Jhg)p|TITNN1(2R|W#>_+671P+ppqd`<eJr^_MYx&>aw+ss)(z*K*dkO5POVLjl!S0fsaj$"
    "c6*du**Pw56U_d@kgwpN>VgeS%IP?lW=+DJ;>?LmAHHxTu*oq&v!boxTplE7cZzX0{OOVpyy8icD<s8$NUP4ZMWfd1IQL2}8QB<&"
    "bQ%(hN9?SE#I6=3cYexq<$Y>uBKsZsjMzy9QHN+s=umx>;5u8JV?IxE@3GO9-kW7Bf{{RA^B!bX0BtJ"
)
"""TEXT as `zstd -19` packs it: with Huffman codes, tables of its own and repeated offsets."""


def block(kind: int, size: int, data: bytes, last: bool = True) -> bytes:
    return (size << 3 | kind << 1 | last).to_bytes(3, "little") + data


def frame(*blocks: bytes, size: int | None = None) -> bytes:
    if size is None:
        return MAGIC + b"\x00\x58" + b"".join(blocks)
    return MAGIC + b"\xe0" + size.to_bytes(8, "little") + b"".join(blocks)


def test_a_frame_of_the_reference_encoder():
    assert decompress(FRAME, len(TEXT)) == TEXT


def test_frames_by_hand():
    raw = frame(block(0, 3, b"abc", last=False), block(1, 1000, b"x"))
    assert decompress(raw, 2000) == b"abc" + b"x" * 1000
    skippable = b"\x50\x2a\x4d\x18\x02\x00\x00\x00zz"
    assert decompress(skippable + raw + raw, 4000) == 2 * (b"abc" + b"x" * 1000)
    literals = frame(block(2, 5, b"\x18abc\x00"))  # three literals as they are, no sequence
    assert decompress(literals, 10) == b"abc"
    assert decompress(b"", 10) == b""


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (frame(block(1, 100_000, b"x", last=False), block(1, 100_000, b"x")), "unpacks to more"),
        (frame(block(3, 1, b"a")), "damaged"),
        (frame(block(0, 5, b"abc")), "cut short"),
        (frame(), "cut short"),
        (MAGIC, "cut short"),
        (MAGIC + b"\x01\x58\x00", "cut short"),
        (b"abcd", "no Zstandard"),
        (b"\x50\x2a\x4d\x18\xff\xff\xff\xff", "cut short"),
        (frame(block(2, 3, b"\x03\x00\x00")), "damaged"),
        (FRAME[: len(FRAME) // 2], "cut short"),
    ],
)
def test_what_cannot_be_is_refused(data, words):
    with pytest.raises(ZstdError, match=words):
        decompress(data, 150_000)


def test_a_bomb_costs_no_more_than_a_slice_of_it():
    """A thousand blocks of 128 KiB in four bytes each."""
    blocks = [block(1, 1 << 17, b"x", last=False)] * 1000
    tracemalloc.start()
    with pytest.raises(ZstdError, match="unpacks to more"):
        decompress(frame(*blocks, block(1, 1, b"x")), 150_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 << 20


@settings(max_examples=300)
@given(st.data())
def test_mutated_frames_give_bytes_or_a_refusal(data):
    mutated = bytearray(FRAME)
    for _ in range(data.draw(st.integers(1, 4))):
        mutated[data.draw(st.integers(4, len(FRAME) - 1))] = data.draw(st.integers(0, 255))
    mutated = mutated[: data.draw(st.integers(0, len(FRAME)))] if data.draw(st.booleans()) else mutated
    try:
        assert len(decompress(bytes(mutated), 20_000)) <= 20_000
    except ZstdError:
        return


@settings(max_examples=500)
@given(st.binary(max_size=60))
def test_any_block_gives_bytes_or_a_refusal(content):
    try:
        decompress(frame(block(2, len(content), content)), 10_000)
    except ZstdError:
        return
