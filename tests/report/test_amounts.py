import pytest

from tensoraudit.report.amounts import amount, listed, ranges, size


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "0.977 KiB"),
        (1536, "1.5 KiB"),
        (90_852_864, "86.6 MiB"),
        (2**40, "1 TiB"),
        (999 * 2**30, "999 GiB"),
        (2**70, "1.05e+06 PiB"),
    ],
)
def test_sizes_have_three_digits(count, text):
    assert size(count) == text


def test_amounts_and_lists():
    assert [amount(0, "file"), amount(1, "file"), amount(1000, "file")] == ["0 files", "1 file", "1,000 files"]
    assert listed("abc", 3) == "a, b, c"
    assert listed(map(str, range(1003)), 2) == "0, 1 and 1,001 more"


@pytest.mark.parametrize(
    ("numbers", "text"), [([], ""), ([3], "3"), ([2, 0, 1], "0-2"), ([0, 1, 5, 7, 8], "0-1, 5, 7-8")]
)
def test_ranges(numbers, text):
    assert ranges(numbers) == text
