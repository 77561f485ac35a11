"""Localising one faulty node among 500 intermediates without names, against one plain run of both sides.

Workers are warm. The reference is PyTorch, the candidate an ONNX graph written node by node (no name of the original),
in which one kernel is 2 % too large. The plain run of a side is one run of its job, with a new session for ONNX. Other
tools' checks of all values run on the same model, if they are installed.
"""

import subprocess
import sys
import time
from pathlib import Path
from runpy import run_path
from statistics import median

import numpy as np

from tensoraudit.audit.localise_by_value import Search, look_at
from tensoraudit.audit.localise_sides import Side
from tensoraudit.probes.limits import Limits
from tensoraudit.probes.pool import Pool

ROOT = Path(__file__).resolve().parents[1]
MODELS = ROOT / "fixtures" / "localise" / "small_models.py"
REPEATS = 7
LIMIT = 3.0
FAULTY = 60
IMAGE = np.random.default_rng(0).normal(size=(1, 64, 32, 32)).astype(np.float32)


def make_candidate(folder):
    graphs = run_path(str(ROOT / "tests" / "audit" / "localise_graphs.py"))
    folder.mkdir(exist_ok=True)
    model = run_path(str(MODELS))["make_deep"]()
    return graphs["write_deep"](model, folder / "deep.onnx", faulty=FAULTY)


def sides(path):
    spec = {"format": "python_object", "module": None, "trust": False, "code": [], "seed": 0}
    spec |= {"path": str(MODELS), "attribute": "make_deep"}
    return Side("pytorch", {"model": spec}, {"image": IMAGE}), Side("onnxruntime", {"path": str(path)}, {"img": IMAGE})


def plain(pool, reference, candidate):
    """One run of each side beside each other; the session is made anew."""
    once = {"repeat": 1, "oracle": False, "perturbations": 0, "device": "cpu"}
    wired = {"name": "s", "arrays": {"image": pool.put(IMAGE)}}
    first = pool.submit("pytorch", "pytorch.run", {**reference.params, **once, "inputs": [wired]})
    request = {**candidate.params, "inputs": [wired], "repeat": 1, "level": "disable"}
    pool.run("onnxruntime", "onnxruntime.describe", {"path": "gone.onnx"})  # forgets the session
    second = pool.run("onnxruntime", "onnxruntime.run", request)
    assert first.result().status == second.status == "ok", (first.result().reason, second.reason)


def alternate(*actions):
    """Median seconds of each action; they take turns, so that a busy moment hits all of them."""
    times = [[] for _ in actions]
    for _ in range(REPEATS):
        for taken, action in zip(times, actions, strict=True):
            clock = time.perf_counter()
            action()
            taken.append(time.perf_counter() - clock)
    return [median(taken[1:]) for taken in times]


def others(path):
    """Other tools on the same file, their start included; a line each, with why there is no figure."""
    shape = f"img:[{','.join(map(str, IMAGE.shape))}]"
    wanted = {
        "Polygraphy, mark all": ["polygraphy", "run", path, "--onnxrt", "--onnx-outputs", "mark", "all"],
        "onnx2tf, operator check": ["onnx2tf", "-i", path, "-cotof", "-n", "-o", path.parent / "onnx2tf"],
    }
    wanted["Polygraphy, mark all"] += ["--input-shapes", shape]
    for name, (tool, *arguments) in wanted.items():
        script = Path(sys.executable).parent / tool
        if not script.exists():
            print(f"  {name:38}not installed")
            continue
        clock = time.perf_counter()
        done = subprocess.run([script, *arguments], capture_output=True, check=False)
        seconds = time.perf_counter() - clock
        ended = "" if done.returncode == 0 else f" (it failed with exit code {done.returncode})"
        print(f"  {name:38}{seconds * 1000:7.1f} ms{ended}")


def main():
    path = make_candidate(ROOT / "out")
    reference, candidate = sides(path)
    with Pool(limits=Limits(timeout=300), threads=1) as pool:
        seen = {}

        def localise():
            seen["surveys"] = look_at(pool, reference, candidate)
            search = Search(pool, *seen["surveys"])
            seen["found"] = search.run(["output"])
            search.judge.close()

        base, took = alternate(lambda: plain(pool, reference, candidate), localise)
    counts = [len(survey.values) for survey in seen["surveys"]]
    found = seen["found"]
    print(f"  {counts[0]} and {counts[1]} values, faulty conv{FAULTY}, found {found.candidate.node}")
    print(f"  on the other side                     {found.reference.node}")
    print(f"  plain run of both sides and a session {base * 1000:7.1f} ms")
    print(f"  localisation by value                 {took * 1000:7.1f} ms   {took / base:.2f}x (limit {LIMIT}x)")
    others(path)


if __name__ == "__main__":
    main()
