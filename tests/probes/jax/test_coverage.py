"""jax.coverage: what jax2onnx, jax2tf and torchax say that they know."""

from __future__ import annotations

import pytest


@pytest.fixture
def coverage(pool):
    def make(tool, *operators):
        outcome = pool.run("jax", "jax.coverage", {"tool": tool, "operators": list(operators)})
        if outcome.status == "unsupported":
            pytest.skip(outcome.reason)
        assert outcome.status == "ok", outcome.reason
        return outcome.result

    return make


def test_jax2onnx(coverage):
    known = ["dot_general", "scan", "cond", "while", "conv_general_dilated"]
    assert coverage("jax2onnx", *known, "frobnicate") == {"supported": known, "unsupported": ["frobnicate"]}


def test_jax2tf_takes_all(coverage):
    assert coverage("jax2tf", "dot_general", "frobnicate")["unsupported"] == []


def test_torchax(coverage):
    result = coverage("torchax", "aten.convolution.default", "aten.linear.default", "mylib.fft.default", "cond")
    assert result["supported"] == ["aten.convolution.default", "aten.linear.default"]


def test_layers_of_keras(coverage):
    result = coverage("keras_jax", "GRU", "Dense", "Functional", "Lambda", "net>Scale")
    assert result["unsupported"] == ["Lambda", "net>Scale"]
