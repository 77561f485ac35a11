"""No end of a conversion may read as a pass: each is a finding, or leaves a required probe that did not run."""

from itertools import product

import pytest

from tensoraudit.audit.convert import conversion_status

STATUSES = ("ok", "failed", "unsupported", "crashed", "timeout", "missing")
TOLD = {"ok", "partial", "impossible", "refused"}


@pytest.mark.parametrize(
    ("shipped", "other", "value"),
    [
        ("ok", "ok", "ok"),
        ("ok", "failed", "partial"),
        ("ok", "timeout", "partial"),
        ("ok", "unsupported", "ok"),  # keras_save, of a model that is no Keras model
        ("failed", "failed", "impossible"),
        ("failed", "crashed", "impossible"),
        ("unsupported", "failed", "impossible"),
        ("failed", "ok", "refused"),
        ("unsupported", "ok", "refused"),
        ("crashed", "ok", "unknown"),
        ("timeout", "ok", "unknown"),
        ("failed", "timeout", "unknown"),
        ("failed", "missing", "unknown"),
        ("crashed", "crashed", "unknown"),
    ],
)
def test_what_two_routes_say_of_a_model(shipped, other, value):
    assert conversion_status({"a": shipped, "b": other}, "a") == value


def test_only_a_shipped_route_that_works_is_a_conversion():
    for shipped, other in product(STATUSES, STATUSES):
        value = conversion_status({"a": shipped, "b": other}, "a")
        assert value in TOLD | {"unknown"}
        assert (value in {"ok", "partial"}) == (shipped == "ok")
