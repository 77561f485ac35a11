"""Models for tests of parameters and weights."""

import torch
from torch import nn


class Ported(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(5, eps=1e-3)
        self.rnn = nn.GRU(15, 7, batch_first=True)
        self.unused = nn.Linear(3, 2)

    def forward(self, x):
        x = self.norm(self.conv(x))
        states, _ = self.rnn(x.permute(0, 2, 3, 1).flatten(2))
        return states


torch.manual_seed(0)
made = nn.Sequential(nn.Linear(3, 2))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 7)
        self.head = nn.Linear(7, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x):
        return self.head(self.embedding(x))
