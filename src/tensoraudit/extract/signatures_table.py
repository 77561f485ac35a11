"""The parameters of the callables that rules speak of. Data only: one line per callable.

A line lists the parameters in the order of the call, methods without `self` under their receiver's origin
(`torch.Tensor().index_put_`):

    f                        a parameter
    dim=None                 what leaving it out means, where rules may ask; for a `None` that stands for another value
                             that value
    impl=package.Impl.NEW    a dotted name, where it is no literal
    dynamo=False|2.9:True    what it means from a version of the package on
    init_sync@2.7            only from a version on
    optimize_model@<1.16     only before a version
    * and *@2.5              what follows is passed by name only, always or from a version on

Of what is passed by name only, and of what stands behind `*args`, no more is listed than rules ask for. A parameter
that was only renamed stands under its newest name.

Taken from the released sources of torch 1.12 to 2.13, onnxruntime 1.8 to 1.31, tf2onnx 1.9 to 1.16, TensorFlow 2.16 and
2.21, JAX 0.4.30 to 0.6.2, onnx 1.23, onnxsim 0.8 and onnxconverter-common 1.16; a test compares the newest with
`inspect.signature` and torch's stubs where they are installed.
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
_IMPL = "torch.distributed.algorithms._checkpoint.checkpoint_wrapper.CheckpointImpl"
_FORMAT = "onnxruntime.quantization.QuantFormat"
_TYPE = "onnxruntime.quantization.QuantType"
_LOAD = "f map_location=None pickle_module * weights_only=False|2.6:True"
_OPTIMIZER = "params lr=0.002 betas=(0.9,0.999) eps=1e-08 weight_decay=0"
_AUTOCAST = "device_type dtype=None enabled=True cache_enabled"
_DEVICE_AUTOCAST = "enabled=True dtype cache_enabled=True"
_SCALER = "init_scale=65536.0 growth_factor=2.0 backoff_factor=0.5 growth_interval=2000 enabled=True"
_DISTRIBUTED = (
    "module device_ids=None output_device=None dim=0 broadcast_buffers=True init_sync=True@2.7 process_group=None "
    "bucket_cap_mb=25 find_unused_parameters=False check_reduction=False gradient_as_bucket_view=False "
    "static_graph=False"
)
_ONNX_EXPORT = (
    "model args f *@2.5 export_params=True verbose training input_names=None output_names=None operator_export_type "
    "opset_version=None do_constant_folding=True dynamic_axes=None keep_initializers_as_inputs custom_opsets=None "
    "export_modules_as_functions=False autograd_inlining=True@2.1 dynamo=False|2.9:True@2.4"
)
_REDUCED = "size_average=None reduce=None reduction='mean'"
_TF2ONNX = (
    "input_signature=None opset=None custom_ops=None custom_op_handlers=None custom_rewriter=None inputs_as_nchw=None "
    "outputs_as_nchw=None@1.12 extra_opset=None shape_override=None target=None large_model=False output_path=None"
)
_BOXES = "boxes scores max_output_size iou_threshold=0.5 score_threshold"
_GRADIENT = "fun argnums=0 has_aux=False holomorphic=False allow_int=False"
_REMAT = "fun * prevent_cse=True policy=None static_argnums=()"

SIGNATURES: Final = {
    "torch.load": _LOAD,
    "torch.serialization.load": _LOAD,
    "torch.save": (
        "obj f pickle_module pickle_protocol=2 _use_new_zipfile_serialization=True _disable_byteorder_record=False@2.1"
    ),
    "torch.compile": "model=None * fullgraph=False dynamic=False|2.1:None backend='inductor' mode=None",
    "torch.manual_seed": "seed",
    "torch.tensor": "data",
    "torch.div": "input other",
    "torch.floor_divide": "input other",
    "torch.bernoulli": "input",
    "torch.index_put": "input indices values accumulate",
    "torch.index_add": "input dim index source",
    "torch.scatter_add": "input dim index src",
    "torch.stft": "input n_fft hop_length win_length window center pad_mode normalized onesided return_complex",
    "torch.export.export": "mod args kwargs=None * strict=True|2.8:False@2.2",
    "torch.jit.trace": (
        "func example_inputs optimize=None check_trace=True check_inputs=None check_tolerance=1e-05 strict=True"
    ),
    "torch.jit.script": "obj optimize",
    "torch.jit.save": "m f",
    "torch.jit.load": "f map_location",
    "torch.onnx.export": _ONNX_EXPORT,
    "torch.utils.checkpoint.checkpoint": (
        "function * use_reentrant=True determinism_check='default' debug=False early_stop=True@2.9"
    ),
    "torch.utils.checkpoint.checkpoint_sequential": "functions segments input use_reentrant=True@2.0",
    "torch.autocast": _AUTOCAST,
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
    "torch.nn.LayerNorm": "normalized_shape eps=1e-05 elementwise_affine=True bias=True@2.1 device dtype",
    "torch.nn.Embedding": (
        "num_embeddings embedding_dim padding_idx=None max_norm=None norm_type=2.0 scale_grad_by_freq=False "
        "sparse=False _weight _freeze@2.0 device dtype"
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
        "embed_dim num_heads dropout=0.0 bias=True add_bias_kv=False add_zero_attn=False kdim=None vdim=None "
        "batch_first=False device dtype"
    ),
    "torch.nn.functional.dropout": _FUNCTIONAL_DROPOUT,
    "torch.nn.functional.dropout1d": _FUNCTIONAL_DROPOUT,
    "torch.nn.functional.dropout2d": _FUNCTIONAL_DROPOUT,
    "torch.nn.functional.dropout3d": _FUNCTIONAL_DROPOUT,
    "torch.nn.functional.alpha_dropout": _FUNCTIONAL_DROPOUT,
    "torch.nn.functional.interpolate": (
        "input size=None scale_factor=None mode='nearest' align_corners=False recompute_scale_factor=None "
        "antialias=False"
    ),
    "torch.nn.functional.grid_sample": "input grid mode='bilinear' padding_mode='zeros' align_corners=False",
    "torch.nn.functional.gelu": "input",
    "torch.nn.functional.softmax": "input dim=None _stacklevel=3 dtype=None",
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
    "torch.utils.data.DataLoader": (
        "dataset batch_size=1 shuffle=None sampler=None batch_sampler=None num_workers=0 collate_fn=None "
        "pin_memory=False drop_last=False timeout=0 worker_init_fn=None multiprocessing_context=None generator=None"
    ),
    "torch.hub.load_state_dict_from_url": (
        "url model_dir=None map_location=None progress=True check_hash=False file_name=None weights_only=False@2.1"
    ),
    "torch.amp.autocast": _AUTOCAST,
    "torch.cuda.amp.autocast": _DEVICE_AUTOCAST,
    "torch.cpu.amp.autocast": _DEVICE_AUTOCAST,
    "torch.amp.GradScaler": f"device='cuda' {_SCALER}",
    "torch.amp.grad_scaler.GradScaler": f"device='cuda' {_SCALER}",
    "torch.cuda.amp.GradScaler": _SCALER,
    "torch.cuda.amp.grad_scaler.GradScaler": _SCALER,
    "torch.amp.custom_fwd": "fwd=None * device_type cast_inputs=None",
    "torch.cuda.amp.custom_fwd": "fwd=None * cast_inputs=None",
    "torch.nn.parallel.DistributedDataParallel": _DISTRIBUTED,
    "torch.nn.parallel.distributed.DistributedDataParallel": _DISTRIBUTED,
    "torch.nn.DataParallel": "module device_ids=None output_device=None dim=0",
    "torch.nn.parallel.DataParallel": "module device_ids=None output_device=None dim=0",
    "torch.distributed.init_process_group": (
        "backend init_method=None timeout=None world_size=-1 rank=-1 store=None group_name='' pg_options=None "
        "device_id=None@2.3"
    ),
    "torch.distributed.all_reduce": "tensor op group=None async_op=False",
    "torch.distributed.broadcast": "tensor src group=None async_op=False group_src=None@2.6",
    "torch.distributed.algorithms._checkpoint.checkpoint_wrapper.checkpoint_wrapper": (
        f"module checkpoint_impl={_IMPL}.REENTRANT|2.2:{_IMPL}.NO_REENTRANT offload_to_cpu=False@<2.0 "
        "checkpoint_fn=None@1.13"
    ),
    "torch.distributed.algorithms._checkpoint.checkpoint_wrapper.apply_activation_checkpointing": (
        "model checkpoint_wrapper_fn check_fn auto_wrap_policy=None@2.1"
    ),
    "torch.optim.Adam": "params lr=0.001 betas=(0.9,0.999) eps=1e-08 weight_decay=0 amsgrad=False",
    "torch.optim.AdamW": "params lr=0.001 betas=(0.9,0.999) eps=1e-08 weight_decay=0.01 amsgrad=False",
    "torch.optim.SGD": "params lr momentum=0 dampening=0 weight_decay=0 nesterov=False",
    "torch.optim.RMSprop": (
        "params lr=0.01 alpha=0.99 eps=1e-08 weight_decay=0 momentum=0 centered=False capturable=False@2.4 "
        "foreach=None maximize=False@1.13 differentiable=False@1.13"
    ),
    "torch.optim.Adagrad": (
        "params lr=0.01 lr_decay=0 weight_decay=0 initial_accumulator_value=0 eps=1e-10 foreach=None"
    ),
    "torch.optim.Adadelta": "params lr=1.0 rho=0.9 eps=1e-06 weight_decay=0 foreach=None",
    "torch.optim.Adamax": f"{_OPTIMIZER} foreach=None",
    "torch.optim.NAdam": f"{_OPTIMIZER} momentum_decay=0.004 decoupled_weight_decay=False@2.1 *@2.0 foreach=None",
    "torch.optim.RAdam": (
        "params lr=0.001 betas=(0.9,0.999) eps=1e-08 weight_decay=0 decoupled_weight_decay=False@2.2 *@2.0 foreach=None"
    ),
    "torch.optim.LBFGS": (
        "params lr=1 max_iter=20 max_eval=None tolerance_grad=1e-07 tolerance_change=1e-09 history_size=100 "
        "line_search_fn=None"
    ),
    "torch.nn.utils.clip_grad_norm_": "parameters max_norm norm_type=2.0 error_if_nonfinite=False foreach=None@2.0",
    "torch.nn.Module().load_state_dict": "state_dict strict=True assign=False@2.1",
    "torch.nn.RMSNorm": "normalized_shape eps=None elementwise_affine=True device dtype",
    "torch.nn.TransformerEncoderLayer": (
        "d_model nhead dim_feedforward=2048 dropout=0.1 activation layer_norm_eps=1e-05 batch_first=False "
        "norm_first=False bias=True@2.1 device dtype"
    ),
    "torch.nn.functional.affine_grid": "theta size align_corners=False",
    "torch.nn.functional.log_softmax": "input dim=None _stacklevel=3 dtype=None",
    "torch.nn.functional.gumbel_softmax": "logits tau=1 hard=False eps=1e-10 dim=-1",
    "torch.nn.functional.upsample": "input size=None scale_factor=None mode='nearest' align_corners=False",
    "torch.nn.functional.cross_entropy": (
        "input target weight=None size_average=None ignore_index=-100 reduce=None reduction='mean' label_smoothing=0.0"
    ),
    "torch.nn.functional.nll_loss": (
        "input target weight=None size_average=None ignore_index=-100 reduce=None reduction='mean'"
    ),
    "torch.nn.functional.mse_loss": f"input target {_REDUCED} weight=None@2.6",
    "torch.nn.functional.kl_div": f"input target {_REDUCED} log_target=False",
    "torch.nn.functional.binary_cross_entropy_with_logits": f"input target weight=None {_REDUCED} pos_weight=None",
    "torch.nn.functional.group_norm": "input num_groups weight=None bias=None eps=1e-05",
    "torch.nn.functional.rms_norm": "input normalized_shape weight=None eps=None",
    "torch.nn.functional.normalize": "input p=2.0 dim=1 eps=1e-12 out=None",
    "torch.nn.functional.leaky_relu": "input negative_slope=0.01 inplace=False",
    "torch.nn.functional.elu": "input alpha=1.0 inplace=False",
    "torch.nn.functional.relu": "input inplace=False",
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
    "onnxruntime.InferenceSession": "path_or_bytes sess_options=None providers=None provider_options=None",
    "onnxruntime.InferenceSession().run": "output_names input_feed run_options",
    "onnxruntime.quantization.quantize_static": (
        f"model_input model_output calibration_data_reader quant_format={_FORMAT}.QOperator|1.11:{_FORMAT}.QDQ "
        "op_types_to_quantize=None per_channel=False reduce_range=False "
        f"activation_type={_TYPE}.QUInt8|1.11:{_TYPE}.QInt8 weight_type={_TYPE}.QUInt8|1.11:{_TYPE}.QInt8 "
        "nodes_to_quantize=None nodes_to_exclude=None "
        "optimize_model=True@<1.16 use_external_data_format=False calibrate_method calibration_providers=None@1.21 "
        "extra_options=None calibration_cache_path=None@1.27"
    ),
    "onnxsim.simplify": "model check_n",
    "onnxconverter_common.float16.convert_float_to_float16": (
        "model min_positive_val max_finite_val keep_io_types disable_shape_infer op_block_list node_block_list"
    ),
    "onnxruntime.quantization.quantize_dynamic": (
        "model_input model_output op_types_to_quantize=None per_channel=False reduce_range=False activation_type@<1.11 "
        f"weight_type={_TYPE}.QUInt8|1.11:{_TYPE}.QInt8 nodes_to_quantize=None nodes_to_exclude=None "
        "optimize_model=True@<1.16 use_external_data_format=False extra_options=None"
    ),
    "tf2onnx.convert.from_keras": f"model {_TF2ONNX} optimizers=None@1.10",
    "tf2onnx.convert.from_function": f"function {_TF2ONNX}",
    "tensorflow.recompute_grad": "f",
    "tensorflow.image.resize": "images size method='bilinear' preserve_aspect_ratio=False antialias=False name=None",
    "tensorflow.compat.v1.image.resize": "images size method align_corners=False preserve_aspect_ratio=False name=None",
    "tensorflow.image.crop_and_resize": (
        "image boxes box_indices crop_size method='bilinear' extrapolation_value=0.0 name=None"
    ),
    "tensorflow.image.non_max_suppression": f"{_BOXES} name=None",
    "tensorflow.image.non_max_suppression_with_scores": f"{_BOXES} soft_nms_sigma=0.0 name=None",
    "tensorflow.image.non_max_suppression_padded": (
        f"{_BOXES} pad_to_max_output_size=False name=None sorted_input=False canonicalized_coordinates=False "
        "tile_size=512"
    ),
    "tensorflow.image.non_max_suppression_overlaps": (
        "overlaps scores max_output_size overlap_threshold=0.5 score_threshold name=None"
    ),
    "tensorflow.image.combined_non_max_suppression": (
        "boxes scores max_output_size_per_class max_total_size iou_threshold=0.5 score_threshold pad_per_class=False "
        "clip_boxes=True name=None"
    ),
    "jax.checkpoint": _REMAT,
    "jax.remat": _REMAT,
    "jax.ad_checkpoint.checkpoint": _REMAT,
    "jax.jit": "fun",
    "jax.grad": _GRADIENT,
    "jax.value_and_grad": _GRADIENT,
    "jax.experimental.jax2tf.convert": "fun_jax * polymorphic_shapes=None with_gradient=True",
}
"""Dotted callee to its parameters."""
