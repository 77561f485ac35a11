"""In which order two tensors agree most, checked against numpy's own transposition."""

import numpy as np
import pytest

from tensoraudit.checkpoints.element_types import element_type
from tensoraudit.checkpoints.header_status import fitting_orders
from tensoraudit.checkpoints.likely_order import likely_order

KIND = element_type("float32")
RANDOM = np.random.default_rng(3)


def found(one, other):
    views = tuple(np.ascontiguousarray(each, np.float32).view(np.uint32) for each in (one, other))
    as_it_is = [tuple(range(one.ndim))] if one.shape == other.shape else []
    return likely_order(views, (KIND, KIND), [*as_it_is, *fitting_orders(one.shape, other.shape)])


@pytest.mark.parametrize(("shape", "order"), [((6, 6), (1, 0)), ((6, 4), (1, 0)), ((3, 3, 4, 5), (3, 2, 0, 1))])
def test_a_few_other_elements_do_not_hide_an_order(shape, order):
    one = RANDOM.normal(size=shape)
    other = one.transpose(order).copy()
    other.flat[:3] += 1
    assert found(one, other) == order


def test_what_agrees_as_it_is_was_not_turned():
    one = RANDOM.normal(size=(6, 6))
    assert found(one, one + np.eye(6)) == (0, 1)


def test_unrelated_and_empty_tensors_have_no_order():
    assert found(RANDOM.normal(size=(6, 6)), RANDOM.normal(size=(6, 6))) is None
    assert found(np.zeros((0, 3)), np.zeros((3, 0))) is None
