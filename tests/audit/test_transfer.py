"""What --transfer says of dtypes, and what it refuses: an infinity is no copy of a weight."""

from types import SimpleNamespace

import numpy as np
import pytest

from tensoraudit.audit.parameter_sides import ModelSide, ModelSides
from tensoraudit.audit.state import Candidate
from tensoraudit.audit.transfer import transfer_weights
from tensoraudit.equivalence.parameter import Parameter
from tensoraudit.equivalence.parameters import pair_parameters
from tensoraudit.errors import InputError

AUDIT = SimpleNamespace(pool=SimpleNamespace(put=lambda array: array))
CANDIDATE = Candidate("candidate", "pytorch:target", {"model": {}}, "pytorch", True)


def sides(array, dtype):
    ours = (Parameter("a.weight", array, "a", kind="kernel", axes="oi", dtype="float32"),)
    held = np.zeros(array.shape, dtype)
    theirs = (Parameter("a.weight", held, "a", kind="kernel", axes="oi", dtype=held.dtype.name),)
    return ModelSides(ModelSide(ours, ()), ModelSide(theirs, ()), pair_parameters(ours, theirs))


def test_another_dtype_is_said():
    array = np.float32([[0.1, 0.2, 0.3], [1, 2, 3]])
    found, told = transfer_weights(AUDIT, CANDIDATE, sides(array, np.float16), {})
    assert "--transfer turned float32 into float16: a.weight" in told
    np.testing.assert_array_equal(found.params["model"]["weights"]["a.weight"], array.astype(np.float16))
    assert not any("turned" in each for each in transfer_weights(AUDIT, CANDIDATE, sides(array, np.float32), {})[1])


def test_what_a_dtype_cannot_hold_is_refused():
    array = np.float32([[1e5, 0.2, 0.3], [1, 2, 3]])
    with pytest.raises(InputError, match=r"a\.weight goes to 1e\+05, more than float16 of a\.weight can hold"):
        transfer_weights(AUDIT, CANDIDATE, sides(array, np.float16), {})
