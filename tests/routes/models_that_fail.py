"""Models that one exporter or both refuse. The line that is to blame ends in `# blame`."""

import dataclasses

import torch
from torch import nn

X = torch.linspace(-1.0, 2.0, 12).reshape(3, 4)


class Branch(nn.Module):
    def forward(self, x):
        if x.sum() > 0:  # blame
            return x * 2
        return x - 1


class Loop(nn.Module):
    def forward(self, x):
        for _ in range(int(x.sum())):  # blame
            x = x + 1
        return x


class FrozenBatch(nn.Module):
    def forward(self, x):
        y = x * 2
        return y.view(3, 4) + 1  # blame


class FrozenComparison(nn.Module):
    def forward(self, x):
        if x.shape[0] == 3:  # blame
            return x + 1
        return x - 1


class Fourier(nn.Module):
    def forward(self, x):
        return torch.fft.fft(x).abs()  # blame


class SingularValues(nn.Module):
    def forward(self, x):
        return torch.linalg.svd(x)[1]  # blame


@torch.library.custom_op("tensoraudit_tests::triple", mutates_args=())
def triple(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@triple.register_fake
def _(x):
    return torch.empty_like(x)


class CustomOperator(nn.Module):
    def forward(self, x):
        return triple(x) + 1  # blame


@torch.library.custom_op("tensoraudit_tests::shapeless", mutates_args=())
def shapeless(x: torch.Tensor) -> torch.Tensor:
    return x * 3


class NoFake(nn.Module):
    def forward(self, x):
        return shapeless(x) + 1  # blame


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 4, batch_first=True)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, _ = self.rnn(packed)  # blame
        return nn.utils.rnn.pad_packed_sequence(out, batch_first=True)[0]


@dataclasses.dataclass
class Result:
    logits: torch.Tensor


class DataclassOutput(nn.Module):
    def forward(self, x):
        return Result(x * 2)


class Sliced(nn.Module):
    def forward(self, x):
        n = x.argmax().item()
        return x.flatten()[:n]  # blame


class Nonzero(nn.Module):
    def forward(self, x):
        return x[torch.nonzero(x[:, 0] > 0)[:, 0].tolist()]  # blame


class NumberOutput(nn.Module):
    def forward(self, x):
        return x + 1, 3


class NewOperator(nn.Module):
    def forward(self, x):
        return nn.functional.scaled_dot_product_attention(x, x, x)  # blame


class Unfolded(nn.Module):
    def forward(self, x):
        return nn.functional.pad(x, (int(x.sum().item()) % 2, 1), mode="reflect").unfold(0, 2, 1)  # blame


class TryExcept(nn.Module):
    def forward(self, x):
        raise_for = x.max()
        if torch.isnan(raise_for):  # blame
            raise ValueError("nan")
        return x


class Histogram(nn.Module):
    def forward(self, x):
        return torch.histc(x, 5)  # blame


class StableSort(nn.Module):
    def forward(self, x):
        return torch.sort(x, stable=True)  # blame


class Eigenvalues(nn.Module):
    def forward(self, x):
        return torch.linalg.eigvals(x @ x.T).real  # blame


class Adaptive(nn.Module):
    def forward(self, x):
        return nn.functional.adaptive_avg_pool2d(x, (3, 3))  # blame


def sample_inputs():
    return (X,)


def Packed_sample_inputs():
    return (torch.randn(3, 7, 4), torch.tensor([3, 7, 2]))


def Adaptive_sample_inputs():
    return torch.randn(1, 2, 7, 7)


def NewOperator_sample_inputs():
    return torch.rand(1, 2, 5, 8)
