"""A small CNN, the model of the scan benchmarks."""

import torch
from torch import nn


def make_model(depth=6):
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()]
    for _ in range(depth):
        layers += [nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 11)).eval()


def sample_inputs():
    return (torch.randn(2, 3, 29, 31, generator=torch.Generator().manual_seed(1)),)


def make_deep_model():
    """About 40 nodes once exported, the batch normalisations folded or not."""
    return make_model(depth=18)


def make_deep_model_sample_inputs():
    return sample_inputs()
