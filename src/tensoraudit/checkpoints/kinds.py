"""The kinds of observations about checkpoints beside those of the readers (`schema.KINDS`): one line for each, in the
words of whoever writes a rule. The metrics of the rule language are made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OBSERVED: Final[Mapping[str, str]] = {
    # imports
    "refused_imports": "globals of the pickle that torch.load refuses by default",
    # prefixes
    "wrapper_prefix": "names that hold the attribute of a wrapper (`_orig_mod`, `_fsdp_wrapped_module`...)",
    "module_prefix": "all names begin with `module.`, as those of DistributedDataParallel do",
    "lifted_names": "names that flax gives to classes made by nn.remat or nn.jit",
    # slices
    "flat_parameter": "a flat parameter of FSDP stands for the parameters of a module",
    "fused_shards": "a fused projection that is cut among tensor-parallel ranks",
    "merge_axis": "a weight of tensor-parallel ranks is cut along another axis than its layer is",
    "vocabulary_padded": "an embedding has more rows than the vocabulary, up to a round number",
    # optimizer
    "optimizer_kind": "what the state of an optimizer looks like: `adam`, `sgd`, `lamb`, `adafactor`...",
    "optimizer_empty": "an optimizer without any state in a checkpoint of a later step",
    "optimizer_extra": "state of an optimizer outside of `state` and `param_groups`",
    "optimizer_mixed": "the state of one optimizer under the hyperparameters of another",
    "optimizer_digit_keys": "state of an optimizer under keys that are texts of digits",
    "optimizer_order": "names in an optimizer's groups in another order than the weights have",
    "optimizer_shape": "state of an optimizer in another shape than the parameter at its position",
    # ties
    "tied_copies": "an output layer stored beside its embedding, although the configuration ties them",
    "head_missing": "an output layer that the configuration does not tie is not there",
    # dtypes
    "half_counter": "a counter in a dtype that cannot count on",
    "half_moment": "second moments of an optimizer in float16",
    "uneven_dtypes": "the same tensor of repeated layers in different dtypes",
    # statistics
    "statistics_missing": "a normalisation layer without its moving mean and variance",
    # orbax
    "orbax_containers": "containers of the saved tree that a restore without a target does not bring back",
    "orbax_devices": "number of devices that the saved shardings name",
    "orbax_digit_keys": "a subtree of orbax whose keys are digits, which were integers",
    # ema
    "ema_twin": "a second set of weights with the names and shapes of the first",
    "averaged_model": "the state of an AveragedModel: its names carry a prefix and a counter",
    # resume state
    "resume_missing": "a part of the training state that is not there while others are",
    # quantised codes
    "codes_with_scale": "a weight of integer or float8 codes whose scale stands beside it",
    "codes_without_scale": "a weight of integer or float8 codes without any scale",
    "scale_missing": "a quantised layer without the scale that the others have",
}
"""Kinds that `observations` make of a checkpoint alone. `resume_missing` has one subject for each part that is missing:
`optimizer`, `scheduler`, `scaler`, `step`, `rng`."""

AGAINST_MODEL: Final[Mapping[str, str]] = {
    "keys_matched": "the share of the model's names that the checkpoint has, from 0 to 1",
    "key_missing": "the model has a parameter or a saved buffer of a name that the checkpoint does not hold",
    "key_extra": "the checkpoint holds a tensor of a name that the model does not have",
    "shape_mismatch": "a tensor has another shape than the model's of that name",
    "dtype_narrowed": "a tensor is stored in a narrower dtype than the model's of that name",
    "dtypes_kept": "the share of the matched names whose dtype is the model's, from 0 to 1",
    "dtype_lost": "a tensor is stored in a wider dtype than the model's of that name",
    "codes_as_weights": "integer or float8 codes stand where the model has a float parameter, and it has no scale",
    "buffer_unexpected": "the checkpoint holds a buffer that the model does not save",
}
"""Kinds of a checkpoint beside the model that it is for."""

DIFFERENCES: Final[Mapping[str, str]] = {
    # how the tensors of both were paired; the value is the number of tensors, the subject "checkpoint"
    "missing": "tensors of the reference that have no partner in the candidate",
    "extra": "tensors of the candidate that have no partner in the reference",
    "different": "pairs with other values",
    "reshaped": "pairs with the same elements in another shape",
    "padded": "pairs of which one is longer along an axis",
    "cast": "pairs whose dtype was narrowed; with values only those that lost something",
    "permuted": "pairs whose axes are in another order",
    "turned": "pairs of one framework whose axes are in another order",
    "tied": "tensors without a partner whose bytes have another name on their side, which has one",
    "unread": "pairs whose values were asked for and could not be read",
    "other_shape": "pairs whose shapes have another number of elements",
    "rounded": "pairs whose values differ by no more than rounding does",
    # optimisers and the rest of the training state
    "optimizer_missing": "only the reference has the state of an optimizer",
    "optimizer_extra": "only the candidate has the state of an optimizer",
    "optimizer_kind": "the states look like those of different optimizers",
    "optimizer_keys": "state is joined to parameters in another way: by position, by digits, by name",
    "optimizer_fields": "other fields in the state, or other keys beside it",
    "optimizer_parameters": "state of another number of parameters",
    "optimizer_groups": "another number of parameter groups, or of parameters in them",
    "optimizer_order": "the same parameters in another order",
    "optimizer_hyperparameter": "a hyperparameter of a group has another value",
    "training_missing": "a part of the training state that only the reference has",
    "training_extra": "a part of the training state that only the candidate has",
    "training_value": "another step or another epoch",
    "rng": "states of other random generators",
    "layout_not_carried": "a kernel stands in the other's layout as it was, without its axes being moved",
    "reshaped_kernel": "a kernel was reshaped where its axes should have been moved",
    "kernel_axes_swapped": "a kernel's axes were moved, and height and width changed places",
    "flatten_order": "a dense kernel behind a flatten whose columns are still in the other order",
    "statistics_lost": "the moving statistics of a layer arrived nowhere",
    "statistics_swapped": "moving mean and variance changed places",
    "statistics_default": "moving statistics at their initial values 0 and 1, where the other side has others",
    "layers_swapped": "the weights of one layer stand under the name of another",
    "ema_taken": "the weights agree with the set that is not the average",
}
"""Kinds that two checkpoints side by side show."""

RESUME: Final[Mapping[str, str]] = {
    "status": "whether the resumed run is the uninterrupted one: equal, differs or unknown",
    "deterministic": "whether two uninterrupted runs agree in every bit",
    "difference": "the largest difference of the losses after the save, uninterrupted against resumed",
    "cold_difference": "the same of a run that starts cold: how much the test can see",
    "lost": "a part of the state that loading did not bring back, and that changes the steps after it",
    "not_restored": "a part of the state that loading did not bring back, without effect in the steps that were run",
    "needed": "a part of the state that a save must hold, found where the code saves nothing itself",
    "hidden": "whether the run still differs when all state that can be seen was given back",
    "saving_changes": "whether the call of save changes the steps after it",
}
"""What a resume test measures."""
