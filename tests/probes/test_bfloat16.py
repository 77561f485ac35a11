"""Values from the format itself: 8 bits of exponent, 7 of mantissa, ties to even."""

import numpy as np
import pytest

from tensoraudit.probes.bfloat16 import bfloat16, is_bfloat16, stepped

TIE_DOWN, TIE_UP = 1 + 2.0**-8, 1 + 3 * 2.0**-8


def test_values_become_the_nearest_that_bfloat16_has():
    given = np.array([1e4, np.pi, TIE_DOWN, TIE_UP, -0.1, 0.0, 3.4e38, np.inf], np.float32)
    want = [9984.0, 3.140625, 1.0, 1.015625, -0.10009765625, 0.0, np.inf, np.inf]
    assert bfloat16(given).tolist() == want
    assert np.isnan(bfloat16(np.array([np.nan], np.float32))).all()


def test_torch_agrees_on_random_numbers():
    torch = pytest.importorskip("torch")
    given = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    want = torch.from_numpy(given).to(torch.bfloat16).to(torch.float32).numpy()
    assert np.array_equal(bfloat16(given), want)


def test_views_stay_in_bfloat16_and_plain_arrays_are_not():
    made = bfloat16(np.ones((2, 3), np.float32))
    assert is_bfloat16(made) and is_bfloat16(made[:1]) and is_bfloat16(made.transpose().copy())
    assert is_bfloat16(bfloat16(np.float64(2.5))) and bfloat16(np.float64(2.5)).shape == ()
    assert not any(map(is_bfloat16, (np.ones(2, np.float32), made.astype(np.float64), made > 0, 1.0, None)))


def test_one_step_is_one_unit_of_bfloat16():
    given = np.array([1.0, 1.0, -1.0, -1.0, 0.0, np.inf, 2.0**-133, 3.3895313892515355e38], np.float32)
    up = np.array([1, 0, 1, 0, 1, 0, 0, 1], bool)
    toward = np.where(up, np.float32(np.inf), np.float32(-np.inf))
    want = [1.0078125, 0.99609375, -0.99609375, -1.0078125, 0.0, np.inf, 0.0, 3.3895313892515355e38]
    assert stepped(bfloat16(given), toward).tolist() == want


def test_what_did_not_move_stays():
    given = bfloat16(np.array([1.0, 2.0], np.float32))
    assert stepped(given, np.array([1.0, 3.0], np.float32)).tolist() == [1.0, 2.015625]
