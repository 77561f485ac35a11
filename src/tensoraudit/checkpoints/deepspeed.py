"""Folders of DeepSpeed's ZeRO stages 1 to 3, merged: every parameter with the slices of the ranks' flat vectors.

Layout of DeepSpeed 0.19: `latest` names the tag folder; in it `[bf16_]zero_pp_rank_R_mp_rank_MM_optim_states.pt` holds
the float32 weights and the optimiser's moments of a rank, `[zero_pp_rank_R_]mp_rank_MM_model_states.pt` names, shapes,
buffers and counters. A merged weight is float32, under the name that the unsharded model has; the copies of lower
precision that stages 1 and 2 store besides are of the group "other". With several model-parallel ranks the weights of
each stand under `mp_rank_MM`: no header says along which axis they were cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tensoraudit.artifacts.globals import is_harmless
from tensoraudit.checkpoints.schema import Entry, Observation, StoredCheckpoint, TrainingState
from tensoraudit.checkpoints.tiling import tiles
from tensoraudit.checkpoints.training_state import find_training_state, plain_value
from tensoraudit.checkpoints.zero_files import RankFile, TagFolder, read_tag_folder, tag_folder
from tensoraudit.checkpoints.zero_merge import Merged, merge
from tensoraudit.errors import InputError

_HEAVY: Final = (
    "module", "optimizer", "optimizer_state_dict", "param_shapes", "frozen_param_shapes", "frozen_param_fragments",
    "shared_params", "buffer_names",
)  # fmt: skip
"""Keys of a model's file that are no state of training."""
_COUNTERS: Final = ("global_steps", "global_samples", "skipped_steps", "dp_world_size", "mp_world_size", "ds_version")


def recognises(path: Path) -> bool:
    """Whether the path is a tag folder with ZeRO files, or the folder above one that `latest` names."""
    return tag_folder(path) is not None


def read(path: Path) -> StoredCheckpoint:
    """Read and merge the files. Raises InputError where the names or all flat weights are lost."""
    folder = tag_folder(path)
    if folder is None:
        raise InputError("has no files of DeepSpeed's ZeRO", where=str(path), remedy="Name the folder with `latest`.")
    found = read_tag_folder(folder)
    merged = {rank: merge(shard, str(folder)) for rank, shard in sorted(found.shards.items())}
    first = merged[min(merged)]
    entries = tuple(entry for rank, each in merged.items() for entry in _placed(each.entries, rank, len(merged)))
    models = [file for shard in found.shards.values() for file in shard.model.values()]
    globals_ = tuple(sorted(found.globals))
    return StoredCheckpoint(
        path=path,
        root=folder,
        format=f"deepspeed_zero{first.stage}",
        framework="pytorch",
        files=tuple(found.files),
        entries=entries,
        training=_training(models[0], found, first),
        writer=f"deepspeed {models[0].tree.get('ds_version') or ''}".strip(),
        imports=tuple(name for name in globals_ if not is_harmless(name)),
        all_imports=globals_,
        metadata=_metadata(models[0], merged),
        observations=(*found.observations, *_faults(merged), *_mixed_steps(models), *tiles(entries)),
    )


def _placed(entries: list[Entry], rank: int, ranks: int) -> Iterator[Entry]:
    """Name the model-parallel rank where there are several."""
    prefix = f"mp_rank_{rank:02d}"
    for entry in entries:
        if ranks == 1:
            yield entry
        else:
            owner = f"{prefix}.{entry.same_as}" if entry.same_as else ""
            yield entry._replace(path=(prefix, *entry.path), same_as=owner)


def _faults(merged: Mapping[int, Merged]) -> Iterator[Observation]:
    for rank, each in merged.items():
        where = f" (model-parallel rank {rank})" if len(merged) > 1 else ""
        yield from (replace(seen, message=f"{seen.message}{where}") for seen in each.observations)


def _mixed_steps(models: list[RankFile]) -> Iterator[Observation]:
    steps = {file.name: file.tree.get("global_steps") for file in models}
    values = sorted({step for step in steps.values() if isinstance(step, int)})
    if len(values) > 1:
        message = (
            f"The files of the model are of the steps {', '.join(map(str, values[:10]))}: they do not belong together"
        )
        yield Observation("steps_mixed", "checkpoint", {name: steps[name] for name in list(steps)[:1000]}, message)


def _training(model: RankFile, found: TagFolder, merged: Merged) -> TrainingState:
    """What the model's file has beside the weights; the optimiser is the merged one, the scaler the ranks'."""
    seen = find_training_state({key: value for key, value in model.tree.items() if key not in _HEAVY}).training
    ranks = found.shards[min(found.shards)].optimizer
    state = min(ranks.items())[1].tree.get("optimizer_state_dict")
    scaler = state.get("loss_scaler") if isinstance(state, dict) else None
    fields = getattr(scaler, "fields", None)
    plain = plain_value(fields) if isinstance(fields, dict) else None
    optimizers = (merged.optimizer,) if merged.optimizer else ()
    return replace(seen, optimizers=optimizers, scaler=plain if plain is not None else seen.scaler)


def _metadata(model: RankFile, merged: Mapping[int, Merged]) -> dict[str, Any]:
    first = merged[min(merged)]
    info = model.tree.get("universal_checkpoint_info")
    vocabulary = (
        {key: info.get(key) for key in ("original_vocab_size", "padded_vocab_size")} if isinstance(info, dict) else {}
    )
    return {
        "keys": list(map(str, model.tree))[:1000],
        "zero_stage": first.stage,
        "world_size": first.ranks * len(merged),
        "partition_count": first.ranks,
        "tensor_parallel": len(merged),
        "stored_elements": sum(each.stored for each in merged.values()),
        "parameter_elements": sum(each.parameters for each in merged.values()),
        "placeholders": first.placeholders,
        **{key: value for key in _COUNTERS if isinstance(value := model.tree.get(key), int | str)},
        **{key: value for key, value in vocabulary.items() if isinstance(value, int)},
    }
