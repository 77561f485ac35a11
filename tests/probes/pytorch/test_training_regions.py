"""pytorch.training tells the lines apart that begin regions, and does not speak of compiled code."""

import functools

import checkpointed_models as models
import pytest
import torch
from torch import nn

from tensoraudit.probes.pytorch import training_passes
from tensoraudit.probes.pytorch.training import measure
from tensoraudit.probes.pytorch.training_compiled import compiled_calls, compiled_modules
from tensoraudit.probes.pytorch.training_step import Trainee

X = torch.linspace(-1, 1, 20).reshape(5, 4)


class Lines(nn.Module):
    """Two blocks at two lines."""

    def __init__(self, first, second, **options):
        super().__init__()
        self.front, self.first, self.second, self.options = nn.Linear(4, 4), first, second, options

    def forward(self, x):
        x = self.front(x)
        x = models.alias(self.first, x, use_reentrant=False)
        return models.alias(self.second, x, use_reentrant=False, **self.options)


START = Lines.forward.__code__.co_firstlineno
FIRST, SECOND = (__file__, START + 2), (__file__, START + 3)


def found(factory, *, lines=()):
    """Regions and heard lines of a measurement, by place, and its rows by metric."""
    result = measure(factory, (X,), lines=lines)
    regions = {each["place"]: each for each in result.get("regions", ())}
    return (
        regions,
        {each["place"]: each for each in result.get("lines", ())},
        dict(each[::2] for each in result["rows"]),
    )


def rows(region):
    """The rows that say something of the model as a whole."""
    return {metric: value for metric, subject, value, _ in region["found"]["rows"] if subject == "model"}


def normed():
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 4))


def test_regions_that_change_nothing_cost_no_step_more(monkeypatch):
    steps = []
    original = Trainee.step
    monkeypatch.setattr(Trainee, "step", lambda self, **how: steps.append(how.get("keep")) or original(self, **how))
    regions, _, _ = found(lambda: Lines(models.mlp(), models.mlp()))
    assert list(regions) == [FIRST, SECOND]
    assert {each["recomputed"] for each in regions.values()} == {1}
    assert [each["modules"][0] for each in regions.values()] == ["first", "second"]
    assert [each["passes"] for each in regions.values()] == [[], []]
    assert set(steps) == {None}


def test_each_line_is_measured_alone_where_anything_differs():
    regions, _, whole = found(lambda: Lines(normed(), models.mlp()))
    assert [each["passes"] for each in regions.values()] == [["plain", "autocast"]] * 2
    first, second = map(rows, regions.values())
    # Mean, variance and counter of the one BatchNorm; autocast moves them as well.
    assert (first["training.buffers_differ"], second["training.buffers_differ"]) == (3, 0)
    assert whole["training.buffers_differ"] == 3
    assert not any(pair["metric"] == "training.buffer_verdict" for pair in regions[SECOND]["found"]["pairs"])


def test_random_numbers_of_one_line():
    def make():
        return Lines(models.mlp(4, 16, nn.Dropout(0.5)), models.mlp(4, 16, nn.Dropout(0.5)), preserve_rng_state=False)

    regions, _, _ = found(make)
    kept, lost = map(rows, regions.values())
    assert (kept["training.rng_differs"], lost["training.rng_differs"]) == (False, True)
    assert (kept["training.gradient_difference"], lost["training.gradient_difference"] > 0.1) == (0.0, True)


def test_the_only_line_needs_no_step_of_its_own():
    regions, _, _ = found(lambda: nn.Sequential(nn.Linear(4, 3), models.Norm()))
    (region,) = regions.values()
    assert (region["passes"], region["recomputed"]) == ([], 1)


def test_more_lines_than_can_be_told_apart(monkeypatch):
    monkeypatch.setattr(training_passes, "MAX_PLACES", 1)
    regions, _, _ = found(lambda: Lines(normed(), models.mlp()))
    assert [each["passes"] for each in regions.values()] == [[], []]


def test_a_region_that_another_cuts_off_is_recomputed_alone():
    """The first reentrant region has no input that requires a gradient, and its output has none: nor has the second."""

    class Cut(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.head = models.mlp(), models.mlp(), nn.Linear(4, 2)

        def forward(self, x):
            x = models.alias(self.first, x, use_reentrant=True)
            return self.head(models.alias(self.second, x, use_reentrant=True))

    regions, _, whole = found(Cut)
    assert (whole["training.recomputations"], whole["training.gradients_missing"]) == (0, 8)
    first, second = regions.values()
    assert (first["recomputed"], rows(first)["training.gradients_missing"]) == (0, 4)
    assert (second["recomputed"], rows(second)["training.gradients_missing"]) == (1, 0)


def test_lines_are_heard_under_the_path_they_were_asked_for_by(tmp_path):
    link = tmp_path / "link.py"
    link.symlink_to(__file__)
    _, lines, _ = found(lambda: Lines(models.mlp(), models.mlp()), lines=[(str(link), START + 1), (str(link), 1)])
    assert lines == {
        (str(link), START + 1): {"place": (str(link), START + 1), "ran": True, "again": []},
        (str(link), 1): {"place": (str(link), 1), "ran": False, "again": []},
    }


# torch.compile


class Function(nn.Module):
    """Keeps a compiled function under a name of its own."""

    def __init__(self):
        super().__init__()
        self.block = models.mlp()
        self.other = torch.compile(self.run, backend="eager")

    def run(self, x):
        return models.alias(self.block, x, use_reentrant=False)

    def forward(self, x):
        return self.other(x)


def in_place():
    module = models.right()
    module.blocks[1].compile(backend="eager")
    return module


@pytest.mark.parametrize(
    ("factory", "named"),
    [
        (Function, "parts of the model"),
        (lambda: torch.compile(models.right(), backend="eager"), "model"),
        (in_place, "blocks.1"),
        (lambda: nn.Sequential(nn.Linear(4, 4), torch.compile(models.right(), backend="eager")), "1"),
    ],
    ids=["function", "whole", "in place", "inside"],
)
def test_compiled_code_is_named_and_nothing_is_claimed(factory, named):
    result = measure(factory, (X,))
    ((metric, _, status, detail),) = result["rows"]
    assert (metric, status) == ("training.status", "unsupported")
    assert detail.startswith(f"torch.compile runs {named}, and checkpoints in compiled code are not seen")
    assert "regions" not in result


def test_what_is_compiled_and_never_called_is_no_matter():
    class Unused(Function):
        def forward(self, x):
            return self.run(x)

    regions, _, whole = found(Unused)
    assert (whole["training.status"], whole["training.regions"], len(regions)) == ("ok", 1, 1)


def test_compiled_calls_are_overheard_and_put_back():
    from torch._dynamo import eval_frame

    before = eval_frame._callback_from_stance
    twice = torch.compile(lambda x: x * 2, backend="eager")
    with compiled_calls() as heard:
        torch._dynamo.disable(functools.partial(torch.add, X))(X)
        assert heard == []
        twice(X)
        nn.Linear(4, 4)(X)
    assert heard == [__file__]
    assert eval_frame._callback_from_stance is before
    assert compiled_modules(models.right()) == []
