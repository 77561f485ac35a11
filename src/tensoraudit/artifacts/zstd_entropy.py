"""The entropy codes of Zstandard: bits read from the end, finite-state tables (FSE) and Huffman codes. RFC 8878, 4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_MAX_HUFFMAN_BITS: Final = 11
_MAX_WEIGHT_BITS: Final = 6
_WINDOW: Final = 64


class ZstdError(ValueError):
    """The bytes are no Zstandard that is read here; the message is a clause."""


class Bits:
    """Bits in the order in which an encoder left them: from the last byte backwards. A one marks where they begin.

    Reading past the first bit gives zeros, and makes `left` negative.
    """

    def __init__(self, data: bytes) -> None:
        if not data or not data[-1]:
            raise ZstdError("has a stream of bits without an end")
        self._data = data
        self.left = 8 * len(data) - 9 + data[-1].bit_length()

    def read(self, count: int) -> int:
        """Return the next `count` bits (at most 56)."""
        self.left -= count
        if self.left >= 0:
            byte = self.left >> 3
            word = int.from_bytes(self._data[byte : byte + 8], "little")
            return word >> (self.left & 7) & ((1 << count) - 1)
        if self.left <= -_WINDOW:
            raise ZstdError("reads far past the end of its bits")
        known = max(count + self.left, 0)
        return (int.from_bytes(self._data[:8], "little") & ((1 << known) - 1)) << (count - known)


@dataclass(frozen=True, slots=True)
class StateTable:
    """A finite-state decoder: of each state the symbol, and the next state as `starts` plus `widths` bits."""

    bits: int
    symbols: Sequence[int]
    widths: Sequence[int]
    starts: Sequence[int]

    @classmethod
    def constant(cls, symbol: int) -> StateTable:
        """Return the table of one symbol that takes no bits."""
        return cls(0, (symbol,), (0,), (0,))

    @classmethod
    def build(cls, frequencies: Sequence[int], bits: int) -> StateTable:
        """Return the table of a distribution; -1 is the frequency of a symbol that is rarer than one in all states."""
        size = 1 << bits
        symbols, top = [0] * size, size
        following = [abs(frequency) for frequency in frequencies]
        for symbol, frequency in enumerate(frequencies):
            if frequency < 0:
                top -= 1
                symbols[top] = symbol
        place, step = 0, (size >> 1) + (size >> 3) + 3
        for symbol, frequency in enumerate(frequencies):
            for _ in range(frequency):
                symbols[place] = symbol
                place = (place + step) & (size - 1)
                while place >= top:
                    place = (place + step) & (size - 1)
        widths, starts = [0] * size, [0] * size
        for state, symbol in enumerate(symbols):
            number = following[symbol]
            following[symbol] += 1
            widths[state] = bits + 1 - number.bit_length()
            starts[state] = (number << widths[state]) - size
        return cls(bits, symbols, widths, starts)


def read_distribution(data: bytes, at: int, most_bits: int, largest: int) -> tuple[list[int], int, int]:
    """Return (frequencies, bits of a state, where the description ends)."""
    word = int.from_bytes(data[at : at + 128], "little")  # 53 symbols of at most 10 bits
    bits = (word & 15) + 5
    if bits > most_bits:
        raise ZstdError("has a table that is too large")
    used, left = 4, 1 << bits
    found: list[int] = []
    while left > 0 and len(found) <= largest:
        width = (left + 1).bit_length()
        value = word >> used & ((1 << width) - 1)
        low, threshold = value & ((1 << (width - 1)) - 1), (1 << width) - 2 - left
        if low < threshold:
            value, width = low, width - 1
        elif value >= 1 << (width - 1):
            value -= threshold
        used += width
        found.append(value - 1)
        left -= abs(value - 1)
        while value == 1:
            repeat = word >> used & 3
            used += 2
            found += [0] * repeat
            if repeat < 3:
                break
    if left or len(found) > largest + 1 or at + (used + 7) // 8 > len(data):
        raise ZstdError("has a distribution that does not add up")
    return found, bits, at + (used + 7) // 8


@dataclass(frozen=True, slots=True)
class HuffmanTable:
    """A Huffman decoder: by the next `bits` bits the symbol and how many of them it takes."""

    bits: int
    symbols: Sequence[int]
    widths: Sequence[int]

    def decode(self, data: bytes, count: int) -> bytes:
        """Return `count` symbols of a stream that ends with the last of them."""
        bits, symbols, widths = self.bits, self.symbols, self.widths
        stream = Bits(data)
        left = stream.left
        mask = (1 << bits) - 1
        padded = b"\0\0" + data + b"\0" * 6  # a look ahead of `bits` bits may reach before the first byte
        shift = 16 - bits
        output = bytearray(count)
        for place in range(count):
            at = left + shift
            code = int.from_bytes(padded[at >> 3 : (at >> 3) + 4], "little") >> (at & 7) & mask
            output[place] = symbols[code]
            left -= widths[code]
            if left < 0:
                raise ZstdError("reads past the end of its bits")
        if left:
            raise ZstdError("leaves bits of a stream unread")
        return bytes(output)


def read_huffman(data: bytes, at: int) -> tuple[HuffmanTable, int]:
    """Return a Huffman table and where its description ends."""
    header = data[at]
    at += 1
    if header >= 128:
        count = header - 127
        end = at + (count + 1) // 2
        packed = data[at:end]
        weights = [half for byte in packed for half in (byte >> 4, byte & 15)][:count]
    else:
        end = at + header
        weights = _read_weights(data[at:end])
    if end > len(data):
        raise ZstdError("is cut short")
    return _huffman(weights), end


def _read_weights(data: bytes) -> list[int]:
    """The weights of symbols, coded with two states that take turns until the bits are used up."""
    frequencies, width, at = read_distribution(data, 0, _MAX_WEIGHT_BITS, 255)
    table = StateTable.build(frequencies, width)
    bits = Bits(data[at:])
    states = [bits.read(width), bits.read(width)]
    weights: list[int] = []
    turn = 0
    while len(weights) < 255:
        state = states[turn]
        weights.append(table.symbols[state])
        states[turn] = table.starts[state] + bits.read(table.widths[state])
        if bits.left < 0:
            weights.append(table.symbols[states[1 - turn]])
            break
        turn = 1 - turn
    return weights


def _huffman(weights: list[int]) -> HuffmanTable:
    total = sum(1 << (weight - 1) for weight in weights if weight)
    bits = total.bit_length()
    rest = (1 << bits) - total
    if not total or bits > _MAX_HUFFMAN_BITS or rest & (rest - 1) or len(weights) > 255:
        raise ZstdError("has an impossible Huffman code")
    weights = [*weights, rest.bit_length()]
    symbols: list[int] = []
    widths: list[int] = []
    for weight in range(1, bits + 1):
        for symbol, own in enumerate(weights):
            if own == weight:
                symbols += [symbol] * (1 << (weight - 1))
                widths += [bits + 1 - weight] * (1 << (weight - 1))
    if len(symbols) != 1 << bits:
        raise ZstdError("has an impossible Huffman code")
    return HuffmanTable(bits, symbols, widths)
