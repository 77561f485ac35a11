"""`checkpoint show` and `diff` over a checkpoint of a terabyte: 1,000 safetensors shards with 100,000 tensors.

    python bench/checkpoint_headers.py [--shards 1000] [--tensors 100000]

The shards are sparse: their headers are written, their tensors are holes, so that the folder takes some megabytes of
disk. Each command runs in a process of its own, as a user starts it: wall clock and processor time, the best of three,
and the peak of its memory. Limits: 5 s and 300 MB for each, with the report on the console.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SECONDS, MEGABYTES = 5.0, 300.0
WIDTH = 2048
"""Rows and columns of a weight: 8 MiB in bfloat16, 800 GiB for 100,000 of them."""


def write(folder: Path, shards: int, tensors: int) -> int:
    """Write shards and index; return the bytes that they claim to hold."""
    each = tensors // shards
    size = WIDTH * WIDTH * 2
    weight_map: dict[str, str] = {}
    for shard in range(shards):
        name = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        header = {}
        for place in range(each):
            key = f"model.layers.{shard}.experts.{place // 4}.{('q', 'k', 'v', 'o')[place % 4]}_proj.weight"
            header[key] = {
                "dtype": "BF16", "shape": [WIDTH, WIDTH], "data_offsets": [place * size, (place + 1) * size],
            }  # fmt: skip
            weight_map[key] = name
        text = json.dumps(header).encode()
        with (folder / name).open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            file.truncate(8 + len(text) + each * size)
    total = shards * each * size
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return total


def measure(*arguments: str) -> tuple[float, float, float, str]:
    """Return seconds by the clock and of the processor (best of three), the peak of memory in MB, and the output."""
    clock, processor, memory = [], [], 0.0
    for _ in range(3):
        started = time.perf_counter()
        command = [sys.executable, "-m", "tensoraudit", *arguments]
        with tempfile.TemporaryFile("w+") as out, subprocess.Popen(command, stdout=out, stderr=out) as child:
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            clock.append(time.perf_counter() - started)
            out.seek(0)
            text = out.read()
        assert child.returncode in {0, 1}, text
        memory = max(memory, used.ru_maxrss / 1024)
        processor.append(used.ru_utime + used.ru_stime)
    return min(clock), min(processor), memory, text


def main() -> None:
    """Print the figures; fail past a limit."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--shards", type=int, default=1_000)
    parser.add_argument("--tensors", type=int, default=100_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        one, other = Path(folder, "one"), Path(folder, "other")
        for place in (one, other):
            place.mkdir()
            total = write(place, options.shards, options.tensors)
        disk = sum(entry.stat().st_blocks * 512 for entry in os.scandir(one))
        print(
            f"{options.shards:,} shards, {options.tensors:,} tensors, {total / 2**40:.2f} TiB ({disk / 2**20:.0f} MiB)"
        )
        over = False
        out = str(Path(folder, "report.json"))
        for words in (
            ["show", str(one)],
            ["diff", str(one), str(other)],
            ["show", str(one), "--report", f"json={out}"],
            ["diff", str(one), str(other), "--report", f"json={out}"],
        ):
            seconds, processor, memory, printed = measure("checkpoint", *words)
            json_too = " as JSON" if "--report" in words else ""
            print(f"  {words[0]}{json_too:<9} {seconds:6.2f} s ({processor:.2f} s of processor) {memory:7.0f} MB")
            if not json_too:
                assert f"{options.tensors:,} tensors" in printed
                over = over or seconds > SECONDS or memory > MEGABYTES
        print("within the limits" if not over else f"PAST A LIMIT of {SECONDS:g} s and {MEGABYTES:g} MB")
        sys.exit(over)


if __name__ == "__main__":
    main()
