"""Speed and memory of `checkpoint diff --values`, against reading both files and hashing them once.

    python bench/checkpoint_values.py [MEBIBYTES]

Two safetensors files of MEBIBYTES (512) are written here: an equal one, one with other values everywhere (a fine-tuned
model), one in bfloat16, one in float16 and one with every matrix transposed. Each measurement is the best of three
processes, which take turns; 80 % of the speed of the hashes is asked for. torch.load of the same tensors stands beside
it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROUNDS = 3
ROWS, COLUMNS = 2_048, 2_047


def main() -> None:
    if len(sys.argv) == 4:
        print(json.dumps(_measured(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))))
        return
    count = max(1, (int(sys.argv[1]) if len(sys.argv) > 1 else 512) * 2**20 // (4 * ROWS * COLUMNS))
    with tempfile.TemporaryDirectory() as folder:
        paths = _write_all(Path(folder), count)
        for name, other in paths.items():
            _compare(name, paths["equal"], other)
        _torch(paths["equal"])


def _compare(name: str, one: Path, other: Path) -> None:
    other = other.with_name("same.safetensors") if name == "equal" else other
    figures = {kind: [_run(kind, one, other) for _ in range(ROUNDS)] for kind in ("hash", "diff")}
    seconds = {kind: min(row["seconds"] for row in rows) for kind, rows in figures.items()}
    size = (one.stat().st_size + other.stat().st_size) / 2**20
    cpu = {kind: min(row["cpu"] for row in rows) for kind, rows in figures.items()}
    memory = max(row["memory"] for row in figures["diff"])
    print(
        f"  {name:<11}{size:7.0f} MiB: diff {size / seconds['diff']:6.0f} MiB/s, read and hash "
        f"{size / seconds['hash']:6.0f} MiB/s: {seconds['hash'] / seconds['diff']:.0%} (limit 80 %), "
        f"CPU {cpu['diff']:.1f} s against {cpu['hash']:.1f} s, {memory:.0f} MiB more memory; "
        f"{figures['diff'][0]['found']}"
    )


def _torch(path: Path) -> None:
    try:
        row = _run("torch", path, path.with_suffix(".pt"))
    except subprocess.CalledProcessError:
        print("  torch.load: no torch here")
        return
    size = path.stat().st_size / 2**20
    print(f"  torch.load of {size:.0f} MiB: {size / row['seconds']:.0f} MiB/s, {row['memory']:.0f} MiB more memory")


def _run(kind: str, one: Path, other: Path) -> dict:
    command = [sys.executable, __file__, kind, str(one), str(other)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _measured(kind: str, one: Path, other: Path) -> dict:
    task = {"hash": _hash, "diff": _diff, "torch": _load}[kind]
    run = task(one, other)
    before = _peak_memory()
    start, used = time.perf_counter(), time.process_time()
    found = run()
    seconds, used = time.perf_counter() - start, time.process_time() - used
    return {"seconds": seconds, "cpu": used, "memory": _peak_memory() - before, "found": found}


def _peak_memory() -> float:
    """MiB. (`ru_maxrss` of a child begins with its parent's.)"""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 2**10


def _hash(one: Path, other: Path) -> Callable[[], str]:
    import hashlib

    def run() -> str:
        for path in (one, other):
            with path.open("rb") as file:
                hashlib.file_digest(file, "sha256")
        return ""

    return run


def _diff(one: Path, other: Path) -> Callable[[], str]:
    from tensoraudit.checkpoints import value_status
    from tensoraudit.checkpoints.diff import diff_checkpoints
    from tensoraudit.checkpoints.read import read_checkpoint

    assert value_status and read_checkpoint(one)  # the modules are there before the clock starts

    def run() -> str:
        pairs = diff_checkpoints(read_checkpoint(one), read_checkpoint(other), values=True).pairs
        statuses = [pair.status for pair in pairs]
        return ", ".join(f"{statuses.count(status)} {status}" for status in sorted(set(statuses)))

    return run


def _load(one: Path, other: Path) -> Callable[[], str]:
    import torch

    content = one.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    tensors = {name: torch.from_numpy(array) for name, array in _arrays(content, start).items()}
    torch.save(tensors, other)
    del content, tensors
    return lambda: str(len(torch.load(other)))


def _arrays(content: bytes, start: int) -> dict[str, np.ndarray]:
    header = json.loads(content[8:start])
    return {
        name: np.frombuffer(content[start + row["data_offsets"][0] : start + row["data_offsets"][1]], "<f4")
        .reshape(row["shape"])
        .copy()
        for name, row in header.items()
    }


def _write_all(folder: Path, count: int) -> dict[str, Path]:
    def turned(array: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(array.T)

    def tuned(array: np.ndarray) -> np.ndarray:
        return array + np.float32(1e-3)

    def rounded(array: np.ndarray) -> np.ndarray:
        return ((array.view(np.uint32) + 0x7FFF + ((array.view(np.uint32) >> 16) & 1)) >> 16).astype(np.uint16)

    def halved(array: np.ndarray) -> np.ndarray:
        return array.astype(np.float16)

    forms = {
        "equal": np.asarray,
        "same": np.asarray,
        "tuned": tuned,
        "bfloat16": rounded,
        "float16": halved,
        "transposed": turned,
    }
    for name, form in forms.items():
        _write(folder / f"{name}.safetensors", count, form)
    return {name: folder / f"{name}.safetensors" for name in forms if name != "same"}


def _write(path: Path, count: int, form: Callable[[np.ndarray], np.ndarray]) -> None:
    """Write a safetensors file, tensor by tensor."""
    generator = np.random.default_rng(0)
    first = form(np.zeros((ROWS, COLUMNS), np.float32))
    dtype = {"float32": "F32", "uint16": "BF16", "float16": "F16"}[first.dtype.name]
    header = json.dumps(
        {
            f"layers.{n}.weight": {
                "dtype": dtype,
                "shape": first.shape,
                "data_offsets": [n * first.nbytes, (n + 1) * first.nbytes],
            }
            for n in range(count)
        }
    ).encode()
    header += b" " * (-len(header) % 8)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for _ in range(count):
            file.write(form(generator.standard_normal((ROWS, COLUMNS), np.float32)).tobytes())


if __name__ == "__main__":
    main()
