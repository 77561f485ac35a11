"""Samples beside the factory, of every form."""

import models.layers  # a sibling, found because the folder is at the end of the path
import numpy as np
import torch
from torch import nn


class Two(nn.Module):
    def forward(self, a, b=None):
        return a if b is None else a + b


def two():
    assert models.layers.Scale
    return Two()


def two_sample_inputs():
    return [(np.ones((2, 3), np.float32), np.ones((2, 3), np.float32)), (np.ones((5, 3)), np.ones((5, 3)))]


def two_dynamic_shapes():
    return {"a": {1: "width", -2: torch.export.Dim("rows")}}


class Batch(nn.Module):
    def forward(self, batch):
        return batch["x"] + batch["y"]

    def sample_inputs(self):
        return {"x": torch.ones(2), "y": torch.ones(2)}


class Rest(nn.Module):
    def forward(self, first, *rest):
        return first + sum(rest)

    @staticmethod
    def sample_inputs():
        return torch.ones(2), torch.ones(2), torch.ones(2)


class Many(nn.Module):
    def forward(self, x):
        return x

    @staticmethod
    def sample_inputs():
        return torch.ones(2), torch.ones(2)


class Fails(nn.Module):
    def forward(self, x):
        return x

    @staticmethod
    def sample_inputs():
        return [torch.ones(2) @ torch.ones(3)]


class Strange(nn.Module):
    def forward(self, x):
        return x

    @staticmethod
    def sample_inputs():
        return {"x": object()}
