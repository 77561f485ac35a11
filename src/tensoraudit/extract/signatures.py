"""Names of positional parameters, so that `torch.load(f, "cpu")` reads like `torch.load(f, map_location="cpu")`.

One table, one line per callable, in the order of the parameters of torch 2.13, onnx 1.23, onnxruntime 1.31, onnxsim 0.8
and onnxconverter-common 1.16; a slow test compares it with `inspect.signature` and torch's stubs where they are
installed. Parameters after `*` are keywords only and need no entry. Methods stand under their receiver's origin
(`torch.Tensor().index_put_`) without `self`.
"""

from __future__ import annotations

from typing import Final

_CONV = "in_channels out_channels kernel_size stride padding dilation groups bias padding_mode device dtype"
_CONV_TRANSPOSE = (
    "in_channels out_channels kernel_size stride padding output_padding groups bias dilation padding_mode device dtype"
)
_MAX_POOL = "kernel_size stride padding dilation return_indices ceil_mode"
_BATCH_NORM = "num_features eps momentum affine track_running_stats device dtype"
_FUNCTIONAL_MAX_POOL = "input kernel_size stride padding dilation ceil_mode return_indices"
_DROPOUT = "p inplace"
_FUNCTIONAL_DROPOUT = "input p training inplace"

_TABLE: Final = {
    "torch.load": "f map_location pickle_module",
    "torch.serialization.load": "f map_location pickle_module",
    "torch.save": "obj f pickle_module pickle_protocol _use_new_zipfile_serialization",
    "torch.compile": "model",
    "torch.manual_seed": "seed",
    "torch.tensor": "data",
    "torch.div": "input other",
    "torch.floor_divide": "input other",
    "torch.bernoulli": "input",
    "torch.index_put": "input indices values accumulate",
    "torch.index_add": "input dim index source",
    "torch.scatter_add": "input dim index src",
    "torch.stft": "input n_fft hop_length win_length window center pad_mode normalized onesided return_complex",
    "torch.export.export": "mod args kwargs",
    "torch.jit.trace": "func example_inputs optimize check_trace check_inputs check_tolerance strict",
    "torch.jit.script": "obj optimize",
    "torch.jit.save": "m f",
    "torch.jit.load": "f map_location",
    "torch.onnx.export": "model args f",
    "torch.utils.checkpoint.checkpoint": "function",
    "torch.utils.checkpoint.checkpoint_sequential": "functions segments input use_reentrant",
    "torch.autocast": "device_type dtype enabled cache_enabled",
    "torch.nn.Linear": "in_features out_features bias device dtype",
    "torch.nn.Conv1d": _CONV,
    "torch.nn.Conv2d": _CONV,
    "torch.nn.Conv3d": _CONV,
    "torch.nn.ConvTranspose1d": _CONV_TRANSPOSE,
    "torch.nn.ConvTranspose2d": _CONV_TRANSPOSE,
    "torch.nn.ConvTranspose3d": _CONV_TRANSPOSE,
    "torch.nn.AvgPool1d": "kernel_size stride padding ceil_mode count_include_pad",
    "torch.nn.AvgPool2d": "kernel_size stride padding ceil_mode count_include_pad divisor_override",
    "torch.nn.AvgPool3d": "kernel_size stride padding ceil_mode count_include_pad divisor_override",
    "torch.nn.MaxPool1d": _MAX_POOL,
    "torch.nn.MaxPool2d": _MAX_POOL,
    "torch.nn.MaxPool3d": _MAX_POOL,
    "torch.nn.AdaptiveAvgPool2d": "output_size",
    "torch.nn.Upsample": "size scale_factor mode align_corners recompute_scale_factor",
    "torch.nn.BatchNorm1d": _BATCH_NORM,
    "torch.nn.BatchNorm2d": _BATCH_NORM,
    "torch.nn.BatchNorm3d": _BATCH_NORM,
    "torch.nn.GroupNorm": "num_groups num_channels eps affine device dtype",
    "torch.nn.LayerNorm": "normalized_shape eps elementwise_affine bias device dtype",
    "torch.nn.Embedding": (
        "num_embeddings embedding_dim padding_idx max_norm norm_type scale_grad_by_freq sparse "
        "_weight _freeze device dtype"
    ),
    "torch.nn.Dropout": _DROPOUT,
    "torch.nn.Dropout1d": _DROPOUT,
    "torch.nn.Dropout2d": _DROPOUT,
    "torch.nn.Dropout3d": _DROPOUT,
    "torch.nn.AlphaDropout": _DROPOUT,
    "torch.nn.GELU": "approximate",
    "torch.nn.Softmax": "dim",
    "torch.nn.LogSoftmax": "dim",
    "torch.nn.MultiheadAttention": (
        "embed_dim num_heads dropout bias add_bias_kv add_zero_attn kdim vdim batch_first device dtype"
    ),
    "torch.nn.functional.dropout": _FUNCTIONAL_DROPOUT,
    "torch.nn.functional.dropout1d": _FUNCTIONAL_DROPOUT,
    "torch.nn.functional.dropout2d": _FUNCTIONAL_DROPOUT,
    "torch.nn.functional.dropout3d": _FUNCTIONAL_DROPOUT,
    "torch.nn.functional.alpha_dropout": _FUNCTIONAL_DROPOUT,
    "torch.nn.functional.interpolate": ("input size scale_factor mode align_corners recompute_scale_factor antialias"),
    "torch.nn.functional.grid_sample": "input grid mode padding_mode align_corners",
    "torch.nn.functional.gelu": "input",
    "torch.nn.functional.softmax": "input dim _stacklevel dtype",
    "torch.nn.functional.embedding": "input weight padding_idx max_norm norm_type scale_grad_by_freq sparse",
    "torch.nn.functional.scaled_dot_product_attention": "query key value attn_mask dropout_p is_causal",
    "torch.nn.functional.layer_norm": "input normalized_shape weight bias eps",
    "torch.nn.functional.batch_norm": "input running_mean running_var weight bias training momentum eps",
    "torch.nn.functional.pad": "input pad mode value",
    "torch.nn.functional.conv1d": "input weight bias stride padding dilation groups",
    "torch.nn.functional.conv2d": "input weight bias stride padding dilation groups",
    "torch.nn.functional.conv3d": "input weight bias stride padding dilation groups",
    "torch.nn.functional.avg_pool2d": "input kernel_size stride padding ceil_mode count_include_pad divisor_override",
    "torch.nn.functional.max_pool1d": _FUNCTIONAL_MAX_POOL,
    "torch.nn.functional.max_pool2d": _FUNCTIONAL_MAX_POOL,
    "torch.nn.functional.max_pool3d": _FUNCTIONAL_MAX_POOL,
    "torch.Tensor().index_put": "indices values accumulate",
    "torch.Tensor().index_put_": "indices values accumulate",
    "torch.Tensor().index_add": "dim index source",
    "torch.Tensor().index_add_": "dim index source",
    "torch.Tensor().scatter": "dim index src",
    "torch.Tensor().scatter_": "dim index src",
    "torch.Tensor().scatter_add": "dim index src",
    "torch.Tensor().scatter_add_": "dim index src",
    "torch.Tensor().scatter_reduce": "dim index src reduce",
    "torch.Tensor().scatter_reduce_": "dim index src reduce",
    "torch.Tensor().masked_fill": "mask value",
    "torch.Tensor().masked_fill_": "mask value",
    "torch.Tensor().bernoulli_": "p",
    "onnx.load": "f format load_external_data",
    "onnx.save": "proto f format",
    "onnx.checker.check_model": "model full_check skip_opset_compatibility_check check_custom_domain",
    "onnx.helper.make_model": "graph",
    "onnx.helper.make_opsetid": "domain version",
    "onnx.helper.make_node": "op_type inputs outputs name doc_string domain overload",
    "onnx.shape_inference.infer_shapes": "model check_type strict_mode data_prop",
    "onnx.version_converter.convert_version": "model target_version",
    "onnxruntime.InferenceSession": "path_or_bytes sess_options providers provider_options",
    "onnxruntime.InferenceSession().run": "output_names input_feed run_options",
    "onnxruntime.quantization.quantize_static": (
        "model_input model_output calibration_data_reader quant_format op_types_to_quantize per_channel"
    ),
    "onnxsim.simplify": "model check_n",
    "onnxconverter_common.float16.convert_float_to_float16": (
        "model min_positive_val max_finite_val keep_io_types disable_shape_infer op_block_list node_block_list"
    ),
}

POSITIONAL: Final = {name: tuple(parameters.split()) for name, parameters in _TABLE.items()}
"""Dotted callee to the names of its positional parameters, in order."""

_TENSOR = "torch.Tensor()."
_BY_METHOD: Final = {
    name.removeprefix(_TENSOR): names for name, names in POSITIONAL.items() if name.startswith(_TENSOR)
}


def positional(callee: str) -> tuple[str, ...]:
    """Return the parameter names of `callee` in order; () when it is not in the table.

    On a receiver that is not known, the tensor methods of the table are taken by their name: no other common class has
    a method called `index_put_` or `scatter_add_`.
    """
    known = POSITIONAL.get(callee)
    if known is None and callee.startswith(("?.", "self.")):
        known = _BY_METHOD.get(callee.rpartition(".")[2])
    return known or ()
