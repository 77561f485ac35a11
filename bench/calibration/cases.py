"""Right and wrong migrations for the calibration: small models with fresh random weights from a seed.

A case builds the reference and, if it is a wrong one, a second module with the same weights and one planted fault,
which is what gets exported. Sizes are such that all cases of all dtypes run on two cores in some minutes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Build = Callable[[], nn.Module]
Inputs = Callable[[], tuple[torch.Tensor, ...]]


@dataclass(frozen=True)
class Case:
    """`fault` turns a copy of the reference into what is exported; None means a right export."""

    name: str
    build: Build
    inputs: Inputs
    fault: Callable[[nn.Module], nn.Module] | None = None

    @property
    def right(self) -> bool:
        return self.fault is None


class ConvStack(nn.Module):
    """12 x conv, batch norm with used statistics, ReLU."""

    def __init__(self, depth: int = 12, width: int = 16, eps: float = 1e-5) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for i in range(depth):
            norm = nn.BatchNorm2d(width, eps=eps)
            norm.running_mean.normal_(0, 0.1)
            norm.running_var.uniform_(0.5, 1.5)
            layers += [nn.Conv2d(3 if i == 0 else width, width, 3, padding=1), norm, nn.ReLU()]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.extra = 0.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        weights = (q @ k.transpose(-1, -2) / (q.shape[-1] + self.extra) ** 0.5).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention, self.norm1, self.norm2 = Attention(width, heads), nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.act, self.down = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.down(self.act(self.up(x))))


def transformer() -> nn.Module:
    return nn.Sequential(*(Layer(64, 4) for _ in range(4)))


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.rnn = kind(16, 32, num_layers=2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rnn(x)[0]


class Apply(nn.Module):
    """A function as a module, with the settings that a fault may change."""

    def __init__(self, function: Callable[..., torch.Tensor], **settings: Any) -> None:
        super().__init__()
        self.function, self.settings = function, settings

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs, **self.settings)


def resize(x: torch.Tensor, align_corners: bool, factor: float = 2.0) -> torch.Tensor:
    size = [int(length * factor) for length in x.shape[2:]]
    return F.interpolate(x, size=size, mode="bilinear", align_corners=align_corners)


def standardize(x: torch.Tensor, eps: float) -> torch.Tensor:
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + eps).sqrt()


def mlp(act: nn.Module | None = None) -> nn.Module:
    act = act or nn.GELU()
    return nn.Sequential(nn.Linear(64, 256), act, nn.Linear(256, 256), act, nn.Linear(256, 10))


def classifier() -> nn.Module:
    return nn.Sequential(ConvStack(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 1000), nn.Softmax(-1))


def pooled() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 16, 5, padding=2), nn.SiLU(), nn.AvgPool2d(3, 2, padding=1), nn.Conv2d(16, 8, 3))


def normed(norm: Callable[[], nn.Module]) -> Build:
    return lambda: nn.Sequential(nn.Conv2d(3, 16, 3), norm(), nn.SiLU(), nn.Conv2d(16, 16, 3), norm())


def upsampler() -> nn.Module:
    return nn.Sequential(
        nn.ConvTranspose2d(3, 16, 4, 2, 1), nn.LeakyReLU(), nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh()
    )


def deep_norms() -> nn.Module:
    return nn.Sequential(*(nn.Sequential(nn.Linear(96, 96), nn.LayerNorm(96)) for _ in range(24)))


def draw(*shape: int, scale: float = 1.0, positive: bool = False) -> Inputs:
    return lambda: ((torch.rand(shape) if positive else torch.randn(shape)) * scale,)


# Faults: change a copy in place, return it.


def set_all(kind: type[nn.Module], **values: Any) -> Callable[[nn.Module], nn.Module]:
    def change(module: nn.Module) -> nn.Module:
        for part in module.modules():
            if isinstance(part, kind):
                for name, value in values.items():
                    setattr(part, name, value)
        return module

    return change


def setting(**values: Any) -> Callable[[nn.Module], nn.Module]:
    def change(module: nn.Module) -> nn.Module:
        module.settings = {**module.settings, **values}
        return module

    return change


def swapped(old: type[nn.Module], new: Callable[[], nn.Module]) -> Callable[[nn.Module], nn.Module]:
    def change(module: nn.Module) -> nn.Module:
        for part in module.modules():
            for name, child in part.named_children():
                if isinstance(child, old):
                    setattr(part, name, new())
        return module

    return change


def weights_through(cast: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[nn.Module], nn.Module]:
    def change(module: nn.Module) -> nn.Module:
        with torch.no_grad():
            for weight in module.parameters():
                weight.copy_(cast(weight))
        return module

    return change


def int8(weight: torch.Tensor) -> torch.Tensor:
    values = weight.double()
    scale = (values.abs().max() / 127).clamp_min(1e-30)
    return ((values / scale).round() * scale).to(weight.dtype)


def one_weight(module: nn.Module) -> nn.Module:
    """One weight of the first layer moves by a thousandth of the largest."""
    with torch.no_grad():
        weight = next(module.parameters()).view(-1)
        weight[weight.numel() // 2] += 1e-3 * weight.abs().max()
    return module


def last_bias(module: nn.Module) -> nn.Module:
    """The bias of the last layer that has one is lost."""
    with torch.no_grad():
        [part for part in module.modules() if isinstance(part, nn.Linear)][-1].bias.zero_()
    return module


IMAGE, TOKENS = draw(2, 3, 17, 23), draw(2, 13, 64)
ROUNDED_FP16 = weights_through(lambda w: w.half().to(w.dtype))
ROUNDED_BF16 = weights_through(lambda w: w.bfloat16().to(w.dtype))

RIGHT = (
    Case("conv-bn-relu x 12", ConvStack, IMAGE),
    Case("transformer x 4", transformer, TOKENS),
    Case("lstm 2 layers, 50 steps", lambda: Recurrent(nn.LSTM), draw(2, 50, 16)),
    Case("gru 2 layers, 50 steps", lambda: Recurrent(nn.GRU), draw(2, 50, 16)),
    Case(
        "bilinear resize to 300",
        lambda: Apply(resize, align_corners=False),
        draw(2, 3, 17, 23, scale=300, positive=True),
    ),
    Case(
        "bilinear resize by 2.3", lambda: Apply(resize, align_corners=False, factor=2.3), draw(2, 3, 17, 23, scale=300)
    ),
    Case("mlp, gelu", mlp, draw(7, 64)),
    Case("mlp, relu", lambda: mlp(nn.ReLU()), draw(7, 64)),
    Case("mlp, tanh", lambda: mlp(nn.Tanh()), draw(7, 64)),
    Case("classifier, softmax of 1000", classifier, IMAGE),
    Case("conv, average pool", pooled, IMAGE),
    Case("group norm", normed(lambda: nn.GroupNorm(4, 16)), IMAGE),
    Case("instance norm", normed(lambda: nn.InstanceNorm2d(16)), IMAGE),
    Case("transposed conv, tanh", upsampler, IMAGE),
    Case("linear, layer norm x 24", deep_norms, draw(7, 96)),
    Case("standardize", lambda: Apply(standardize, eps=1e-5), draw(7, 101, scale=10)),
    Case("product with 4096 terms", lambda: nn.Linear(4096, 31), draw(5, 4096)),
    Case("log softmax of large", lambda: Apply(lambda x: F.log_softmax(x, -1)), draw(7, 101, scale=50)),
    Case("log sum exp", lambda: Apply(lambda x: torch.logsumexp(x, -1)), draw(7, 101, scale=5)),
    Case("cumulative sum", lambda: Apply(lambda x: torch.cumsum(x, -1)), draw(7, 499)),
    Case("mean of 10,007", lambda: Apply(lambda x: x.mean(-1)), draw(7, 10007, positive=True)),
    Case("mean of 100,003", lambda: Apply(lambda x: x.mean(-1)), draw(3, 100003, positive=True)),
    Case("global average pool", lambda: nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()), draw(2, 7, 113, 109)),
    Case("norm of 10,007", lambda: Apply(lambda x: x.norm(dim=-1)), draw(7, 10007)),
    Case("variance of 10,007", lambda: Apply(lambda x: x.var(-1, unbiased=False)), draw(7, 10007)),
    Case("product with 16,384 terms", lambda: nn.Linear(16384, 31), draw(5, 16384, positive=True)),
    Case("exponential", lambda: Apply(torch.exp), draw(7, 101, scale=2)),
    Case("polynomial", lambda: Apply(lambda x: ((x * 2 - 1) * x + 3) * x**2), draw(7, 101, scale=2)),
    Case("unit length", lambda: Apply(lambda x: F.normalize(x, dim=-1)), draw(7, 101)),
    Case("sine of large angles", lambda: Apply(torch.sin), draw(7, 101, scale=100)),
)

WRONG = (
    Case("batch norm eps 1e-3 for 1e-5", ConvStack, IMAGE, set_all(nn.BatchNorm2d, eps=1e-3)),
    Case("gelu tanh for erf", transformer, TOKENS, swapped(nn.GELU, lambda: nn.GELU("tanh"))),
    Case("layer norm eps 1e-6 for 1e-5", transformer, TOKENS, set_all(nn.LayerNorm, eps=1e-6)),
    Case(
        "layer norm eps 1e-5 for 1e-12",
        lambda: set_all(nn.LayerNorm, eps=1e-12)(transformer()),
        TOKENS,
        set_all(nn.LayerNorm, eps=1e-5),
    ),
    Case(
        "align_corners swapped",
        lambda: Apply(resize, align_corners=False),
        draw(2, 3, 17, 23, scale=300, positive=True),
        setting(align_corners=True),
    ),
    Case("weights through fp16, conv", ConvStack, IMAGE, ROUNDED_FP16),
    Case("weights through fp16, transformer", transformer, TOKENS, ROUNDED_FP16),
    Case("weights through fp16, lstm", lambda: Recurrent(nn.LSTM), draw(2, 50, 16), ROUNDED_FP16),
    Case("weights through bf16, conv", ConvStack, IMAGE, ROUNDED_BF16),
    Case("weights through bf16, transformer", transformer, TOKENS, ROUNDED_BF16),
    Case("weights through int8, conv", ConvStack, IMAGE, weights_through(int8)),
    Case("weights through int8, transformer", transformer, TOKENS, weights_through(int8)),
    Case("one weight off, conv", ConvStack, IMAGE, one_weight),
    Case("one weight off, transformer", transformer, TOKENS, one_weight),
    Case("one weight off, mlp", mlp, draw(7, 64), one_weight),
    Case(
        "weights through fp32, mlp",
        lambda: mlp(nn.ReLU()),
        draw(7, 64),
        weights_through(lambda w: w.float().to(w.dtype)),
    ),
    Case("weights through fp16, mlp", lambda: mlp(nn.ReLU()), draw(7, 64), ROUNDED_FP16),
    Case("one weight off, relu mlp", lambda: mlp(nn.ReLU()), draw(7, 64), one_weight),
    Case("hard tanh for tanh", lambda: mlp(nn.Tanh()), draw(7, 64), swapped(nn.Tanh, nn.Hardtanh)),
    Case("last bias lost", mlp, draw(7, 64), last_bias),
    Case("relu6 for silu", pooled, IMAGE, swapped(nn.SiLU, nn.ReLU6)),
    Case("hardswish for silu", pooled, IMAGE, swapped(nn.SiLU, nn.Hardswish)),
    Case("padding counted in average", pooled, IMAGE, set_all(nn.AvgPool2d, count_include_pad=False)),
    Case("leaky slope 0.02 for 0.01", upsampler, IMAGE, set_all(nn.LeakyReLU, negative_slope=0.02)),
    Case("group norm eps 1e-3 for 1e-5", normed(lambda: nn.GroupNorm(4, 16)), IMAGE, set_all(nn.GroupNorm, eps=1e-3)),
    Case(
        "instance norm eps 1e-3 for 1e-5",
        normed(lambda: nn.InstanceNorm2d(16)),
        IMAGE,
        set_all(nn.InstanceNorm2d, eps=1e-3),
    ),
    Case("attention scaled by 17 for 16", transformer, TOKENS, set_all(Attention, extra=1.0)),
    Case("deep layer norm eps 1e-6", deep_norms, draw(7, 96), set_all(nn.LayerNorm, eps=1e-6)),
    Case("standardize eps 1e-3", lambda: Apply(standardize, eps=1e-5), draw(7, 101), setting(eps=1e-3)),
)


def exported_module(case: Case, reference: nn.Module) -> nn.Module:
    """Return what is exported: a copy of the reference, with the fault if there is one.

    Raises NoFaultError where the fault changes nothing in this dtype: weights rounded to the dtype that they have.
    """
    module = copy.deepcopy(reference)
    if case.fault is None:
        return module
    module = case.fault(module).eval()
    weights = zip(module.parameters(), reference.parameters(), strict=True)
    if case.name.startswith("weights through") and all(torch.equal(a, b) for a, b in weights):
        raise NoFaultError(f"{case.name}: no weight changes in this dtype")
    return module


class NoFaultError(Exception):
    """A planted fault that does nothing."""
