"""Output layers that share their weight with an embedding, or should."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tensoraudit.checkpoints.schema import Entry, Observation, StoredCheckpoint

_HEADS: Final = (".lm_head.weight", ".embed_out.weight", ".output_projection.weight", ".predictions.decoder.weight")
_EMBEDDINGS: Final = (
    *("embed_tokens.weight", ".wte.weight", ".word_embeddings.weight", ".tok_embeddings.weight"),
    *(".embed_in.weight", ".shared.weight"),
)


def observe(stored: StoredCheckpoint) -> Iterator[Observation]:
    """Yield `tied_copies` for an output layer stored beside an embedding to which the configuration ties it, and
    `head_missing` where it ties none and there is none. Says nothing where no configuration was found."""
    config = stored.metadata.get("config")
    tied = config.get("tie_word_embeddings") if isinstance(config, dict) else None
    if not isinstance(tied, bool):
        return
    embeddings = _named(stored, _EMBEDDINGS)
    if not embeddings:
        return
    heads = _named(stored, _HEADS)
    if not tied and not heads and _is_generator(config):
        told = (
            f"The configuration does not tie the output layer to {embeddings[0].name}, and no output layer is stored."
        )
        yield Observation("head_missing", embeddings[0].full_name, list(embeddings[0].shape), told)
    for head in heads if tied else ():
        twin = next((each for each in embeddings if each.shape == head.shape and not _shares(each, head)), None)
        if twin is not None:
            told = f"{head.name} and {twin.name} are stored apart, and the configuration ties them"
            yield Observation("tied_copies", head.full_name, twin.full_name, told)


def _named(stored: StoredCheckpoint, ends: tuple[str, ...]) -> Sequence[Entry]:
    return [entry for entry in stored.entries if f".{entry.name}".endswith(ends) and entry.group == "model"]


def _is_generator(config: object) -> bool:
    """Whether the model that was saved has an output layer over the vocabulary."""
    names = config.get("architectures") if isinstance(config, dict) else None
    return isinstance(names, list) and any("LM" in str(name) or "Generation" in str(name) for name in names)


def _shares(one: Entry, other: Entry) -> bool:
    return bool(one.same_as == other.full_name or other.same_as == one.full_name or one.parts[:1] == other.parts[:1])
