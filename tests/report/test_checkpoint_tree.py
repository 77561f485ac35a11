"""The folded tree: what is shown adds up to what there is, and what is folded is the same."""

import re
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensoraudit.checkpoints.schema import Entry, Part
from tensoraudit.report.checkpoint_tree import grow, lines, texts


def entry(name: str, shape: tuple[int, ...] = (4,), dtype: str = "float32", **more) -> Entry:
    size = {"float32": 4, "float16": 2, "int64": 8}[dtype]
    count = size
    for each in shape:
        count *= each
    return Entry(name, dtype, shape, (Part("f", 0, count),), **more)


def shown(entries, room=32, unicode=True, width=None):
    return list(texts(lines(grow("model", entries), room), unicode=unicode, width=width))[1:]


ENCODER = [
    entry(f"encoder.layer.{number}.{name}", shape)
    for number in range(12)
    for name, shape in (("query.weight", (8, 8)), ("query.bias", (8,)), ("norm.weight", (8,)))
]


def test_repeated_layers_are_one_line():
    assert shown(ENCODER) == [
        "model                       36  3.75 KiB  float32",
        "└─ encoder.layer.0-11       36  3.75 KiB  float32  12 alike, one is shown",
        "   ├─ query                  2     288 B  float32  weight [8, 8], bias [8]",
        "   └─ norm                   1      32 B  float32  weight [8]",
    ]


def test_a_layer_that_differs_stands_by_itself():
    odd = [each if each.name != "encoder.layer.3.norm.weight" else entry(each.name, (9,)) for each in ENCODER]
    names = [line.split("  ")[0] for line in shown(odd)]
    assert any(re.search(r"layer\.0-2, 4-11|0-2, 4-11", name) for name in names)
    assert any(re.search(r"\b3$", name) for name in names)


def test_another_dtype_is_not_alike():
    pair = [entry("block.0.w"), entry("block.1.w", dtype="float16")]
    assert not any("0-1" in line for line in shown(pair))
    assert any("0-1" in line for line in shown([entry("block.0.w"), entry("block.1.w")]))


def test_names_with_numbers_at_their_end_fold_too():
    keras = [entry(f"dense_{number}/kernel") for number in range(3)]
    assert any("dense_0-2" in line for line in shown(keras))


def test_batch_normalisation_takes_one_line():
    names = ("weight", "bias", "running_mean", "running_var")
    norm = [*(entry(f"bn.{name}") for name in names), entry("bn.num_batches_tracked", (), "int64"), entry("x.w")]
    (line,) = [line for line in shown(norm) if "bn" in line]
    assert line.endswith("weight bias running_mean running_var [4], num_batches_tracked []")
    (cut,) = [line for line in shown(norm, width=70) if "bn" in line]
    assert len(cut) <= 70 and cut.endswith(" ...")


def test_many_tensors_of_one_module_are_counted():
    wide = [entry(f"p{number}x") for number in range(100)]
    folded = shown(wide)
    assert len(folded) <= 33
    rest = next(line for line in folded if "more" in line)
    assert "... 85 more" in rest and " 85 " in rest and "1.33 KiB" in rest
    assert len(shown(wide, room=None)) == 101


def test_a_tied_weight_counts_once():
    tied = [entry("emb.weight", (10, 4)), entry("head.weight", (10, 4), same_as="emb.weight")]
    root, *rest = lines(grow("model", tied))
    assert (root.tensors, root.bytes) == (2, 160)
    assert any("is emb.weight" in line.shapes for line in rest)


def test_ascii_where_a_stream_has_no_other_characters():
    assert all(line.isascii() for line in shown(ENCODER, unicode=False))


def test_ten_thousand_levels_are_no_recursion():
    deep = [entry(".".join("abcdefghij" * 1000) + ".w"), entry("b.w")]
    assert len(shown(deep)) < 40


def test_a_deep_name_takes_memory_by_its_length():
    deep = [entry("a." * 20_000 + "w")]
    tracemalloc.start()
    grow("model", deep)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000_000  # all the paths above it together: 400 MB


def test_verbose_shows_every_tensor_of_what_it_shows():
    found = lines(grow("model", [entry(f"a.b{number}x.w{number}") for number in range(50)]), None)
    assert sum(line.shapes != "" for line in found) == 50


NAMES = st.lists(
    st.lists(st.sampled_from(["a", "b", "layer", "0", "1", "2", "w"]), min_size=1, max_size=4).map(".".join),
    min_size=1, max_size=40, unique=True,
)  # fmt: skip


@settings(max_examples=50)
@given(NAMES, st.sampled_from([4, 8, 32]))
def test_totals_of_the_root_are_those_of_all_tensors(names, room):
    entries = [entry(name, (len(name),)) for name in names]
    found = lines(grow("model", entries), room)
    assert found[0].tensors == len(entries)
    assert found[0].bytes == sum(each.stored_bytes for each in entries)


@settings(max_examples=50)
@given(NAMES)
def test_lines_below_a_line_add_up_to_it(names):
    found = lines(grow("model", [entry(name) for name in names]), None)
    for at, line in enumerate(found):
        depth = len(line.guides)
        inside = []
        for other in found[at + 1 :]:
            if len(other.guides) <= depth:
                break
            if len(other.guides) == depth + 1:
                inside.append(other)
        if inside and "alike" not in line.shapes:
            assert sum(each.tensors for each in inside) == line.tensors
            assert sum(each.bytes for each in inside) == line.bytes


@pytest.mark.parametrize("name", ["", ".", "..", "a..b", "/", "99999999999999999999.w", "a.0.0.0"])
def test_odd_names(name):
    assert lines(grow("model", [entry(name)]))[0].tensors == 1


def test_many_numbers_of_alike_siblings_are_cut_short():
    """Found on chgnet: a hundred parameters of an optimiser made a name of three lines."""
    numbers = [*range(0, 200, 2), 300]
    entries = [Entry("step", "float32", (), (Part("f", 0, 4),), path=("state", str(number))) for number in numbers]
    names = [line.name for line in lines(grow("optimizer", entries))]
    assert names[-1] == "state.0, 2, 4, 6, 8, 10, 12, ... 300"
    assert max(map(len, names)) < 40
