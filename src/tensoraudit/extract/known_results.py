"""What calls of well-known functions return, as data: which make tensors, which give back their receiver.

A rule that asks for `torch.Tensor().item` has to find `torch.relu(x).item()` and `self.conv(x).item()` too, so every
call listed here has the one origin `torch.Tensor()`. Only what holds for every overload is listed (a slow test reads
the stubs of the installed torch); a call that is not listed keeps its own name, `torch.load()`. This module is data
and look-ups: it knows no scopes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


TENSOR: Final = "torch.Tensor()"
MODULE: Final = "torch.nn.Module()"

TENSOR_FUNCTIONS: Final = _names(
    """
    abs absolute acos add addcdiv addcmul addmm all amax amin angle any arange argmax argmin argsort as_strided
    as_tensor asarray asin atan atan2 baddbmm bernoulli bincount bitwise_and bitwise_not bitwise_or bitwise_xor bmm
    broadcast_to bucketize cat cdist ceil celu clamp clamp_max clamp_min clone complex concat conj
    constant_pad_nd conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d cos cosh
    cosine_similarity count_nonzero cross cumprod cumsum detach diag diag_embed diagonal diff div divide dot dropout
    embedding empty empty_like eq erf erfc exp exp2 expm1 eye feature_dropout fix flatten flip fliplr flipud
    floor floor_divide fmod frac from_numpy full full_like gather ge greater group_norm gt hann_window hamming_window
    imag index_add index_copy index_fill index_put index_select inner instance_norm inverse isclose
    isfinite isin isinf isnan kron layer_norm le lerp less linspace log log10 log1p log2 log_softmax logaddexp
    logical_and logical_not logical_or logical_xor logspace logsumexp lt masked_fill masked_scatter masked_select
    matmul maximum mean minimum mm mul multinomial multiply mv nan_to_num nanmean nansum narrow ne neg negative norm
    normal ones ones_like outer permute pinverse pixel_shuffle pixel_unshuffle polar pow prelu prod quantile rad2deg
    rand rand_like randint randint_like randn randn_like randperm range real reciprocal relu relu_ remainder
    repeat_interleave reshape roll rot90 round rrelu rsqrt scatter scatter_add scatter_reduce
    searchsorted select selu sigmoid sign sin sinc sinh softmax sqrt square squeeze stack
    std sub subtract sum swapaxes swapdims t take take_along_dim tan tanh tensor threshold tile trace
    transpose tril triu true_divide trunc unflatten unsqueeze vander var vdot view_as_complex view_as_real vstack
    zeros zeros_like
    """
)
"""Functions `torch.<name>` whose every overload returns one tensor."""

OTHER_FUNCTIONAL: Final = _names(
    """
    adaptive_max_pool1d_with_indices adaptive_max_pool2d_with_indices adaptive_max_pool3d_with_indices
    fractional_max_pool2d_with_indices fractional_max_pool3d_with_indices max_pool1d_with_indices
    max_pool2d_with_indices max_pool3d_with_indices multi_head_attention_forward assert_int_or_pair
    adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d fractional_max_pool2d fractional_max_pool3d
    max_pool1d max_pool2d max_pool3d
    """
)
"""Functions of `torch.nn.functional` that may return more than one tensor. All its others return one."""

OTHER_METHODS: Final = _names(
    """
    allclose aminmax as_subclass backward chunk const_data_ptr cummax cummin data_ptr dense_dim dim dim_order dsplit
    element_size equal frexp geqrf get_device histogram hsplit is_coalesced is_complex is_conj is_contiguous
    is_distributed is_floating_point is_inference is_neg is_nonzero is_pinned is_same_size is_set_to is_shared is_signed
    item kthvalue lu max median min mode module_load nanmedian ndimension nelement nonzero numel numpy
    qscheme q_per_channel_axis q_scale q_zero_point qr record_stream register_hook register_post_accumulate_grad_hook
    retain_grad size slogdet sort sparse_dim split split_with_sizes storage storage_offset storage_type stride svd
    tensor_split tolist topk triangular_solve type unbind unique unique_consecutive unsafe_chunk unsafe_split
    unsafe_split_with_sizes untyped_storage vsplit
    """
)
"""Methods of a tensor that return anything but one tensor. All its others do."""

TENSOR_ATTRIBUTES: Final = frozenset({"T", "mT", "H", "mH", "real", "imag"})
"""Attributes of a tensor that are tensors. `data` and `grad` keep their names: rules speak of them."""

MODULE_METHODS: Final = _names(
    """
    add_module apply bfloat16 buffers children compile cpu cuda double eval float get_buffer get_parameter
    get_submodule half ipu load_state_dict modules mtia named_buffers named_children named_modules named_parameters
    parameters register_backward_hook register_buffer register_forward_hook register_forward_pre_hook
    register_full_backward_hook register_full_backward_pre_hook register_module register_parameter requires_grad_
    set_submodule share_memory state_dict to to_empty train type xpu zero_grad
    """
)
"""What `torch.nn.Module` defines and its subclasses inherit: reported under its name, whatever the subclass."""

FLUENT: Final = _names(
    """
    apply bfloat16 cpu cuda double eval float half ipu mtia requires_grad_ share_memory to to_empty train type xpu
    """
)
"""Methods of a module that return the module."""

TENSOR_MODULES: Final = _names(
    """
    AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AlphaDropout AvgPool1d AvgPool2d AvgPool3d BatchNorm1d
    BatchNorm2d BatchNorm3d Bilinear CELU ConstantPad1d ConstantPad2d ConstantPad3d Conv1d Conv2d Conv3d
    ConvTranspose1d ConvTranspose2d ConvTranspose3d CrossEntropyLoss Dropout Dropout1d Dropout2d Dropout3d ELU Embedding
    EmbeddingBag Flatten GELU GLU GroupNorm Hardsigmoid Hardswish Hardtanh InstanceNorm1d InstanceNorm2d
    InstanceNorm3d L1Loss LayerNorm LeakyReLU Linear LogSigmoid LogSoftmax MSELoss Mish NLLLoss PReLU PixelShuffle
    RMSNorm RReLU ReLU ReLU6 ReflectionPad1d ReflectionPad2d ReplicationPad1d ReplicationPad2d SELU SiLU Sigmoid Softmax
    Softmax2d Softmin Softplus Softsign SyncBatchNorm Tanh Threshold Unflatten Upsample ZeroPad2d
    """
)
"""Classes `torch.nn.<name>` whose `forward` returns one tensor."""

NOT_MODULES: Final = _names(
    "Parameter UninitializedParameter Buffer UninitializedBuffer DataParallel LinearCrossEntropyOptions"
)
"""Capitalised names in `torch.nn` that are no modules, and DataParallel, which stands for the module that it wraps."""

MODULE_CLASSES: Final = frozenset(
    {
        "torch.jit.ScriptModule",
        "torch.fx.GraphModule",
        "lightning.LightningModule",
        "lightning.pytorch.LightningModule",
        "pytorch_lightning.LightningModule",
        "transformers.PreTrainedModel",
        "transformers.modeling_utils.PreTrainedModel",
    }
)
"""Classes outside `torch.nn` that derive from `torch.nn.Module`."""

BUILTIN_RESULTS: Final = {
    "abs": "?", "bool": "bool()", "bytes": "bytes()", "dict": "dict()", "float": "float()", "frozenset": "frozenset()",
    "getattr": "?", "int": "int()", "iter": "?", "len": "int()", "list": "list()", "max": "?", "min": "?", "next": "?",
    "pow": "?", "repr": "str()", "round": "?", "set": "set()", "sorted": "list()", "str": "str()", "sum": "?",
    "tuple": "tuple()", "vars": "dict()",
}  # fmt: skip
"""Built-in functions whose result has a known type, or (`?`) the type of what they were given."""


LEAVING_DECORATORS: Final = frozenset(
    {
        "abc.abstractmethod", "classmethod", "functools.cache", "functools.cached_property", "functools.lru_cache",
        "functools.wraps", "property", "staticmethod", "torch.autocast", "torch.enable_grad", "torch.inference_mode",
        "torch.jit.export", "torch.jit.ignore", "torch.jit.unused", "torch.no_grad", "torch.set_grad_enabled",
        "torch.amp.autocast", "torch.cuda.amp.autocast", "typing.no_type_check", "typing.override", "typing.final",
        "typing_extensions.override", "typing.overload", "torch.compiler.disable", "jax.jit", "jax.checkpoint",
        "torch.compile", "torch.fx.wrap", "jax.named_call",
    }
)  # fmt: skip
"""Decorators, plain or called, after which a function takes and returns what it did."""

PROPERTIES: Final = frozenset({"property", "functools.cached_property"})
"""Decorators that call a method when its attribute is read."""


def is_module_class(path: str) -> bool:
    """Tell whether the class at dotted `path` is known to derive from `torch.nn.Module`."""
    head, _, name = path.rpartition(".")
    if head == "torch.nn" or head.startswith("torch.nn.modules"):
        return name[:1].isupper() and name not in NOT_MODULES
    return path in MODULE_CLASSES


@lru_cache(1 << 14)
def member(origin: str, name: str) -> str | None:
    """Return the origin of attribute `name` of an instance with `origin`, where torch's own classes settle it."""
    if origin == TENSOR:
        return TENSOR if name in TENSOR_ATTRIBUTES else None
    if name in MODULE_METHODS and origin != MODULE and origin.endswith("()") and is_module_class(origin[:-2]):
        return f"{MODULE}.{name}"
    return None


@lru_cache(1 << 14)
def returns_receiver(callee: str) -> bool:
    """Tell whether a method gives back the object it was called on."""
    head, _, name = callee.rpartition(".")
    return head == MODULE and name in FLUENT


@lru_cache(1 << 14)
def result(callee: str) -> str | None:
    """Return the origin of what `callee` returns, or None where nothing is known about it."""
    head, _, name = callee.rpartition(".")
    if not head:
        return BUILTIN_RESULTS.get(name)
    if head == "dataclasses":
        return "?" if name == "field" else None
    if head == "torch":
        return TENSOR if name in TENSOR_FUNCTIONS else None
    if head == "torch.nn.functional":
        return TENSOR if name not in OTHER_FUNCTIONAL else None
    if head == TENSOR:
        return TENSOR if name not in OTHER_METHODS else None
    if name == "__call__" and head.startswith("torch.nn.") and head[9:-2] in TENSOR_MODULES:
        return TENSOR
    return None
