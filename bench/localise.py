"""Localising one faulty node in a 40-node CNN, against one plain run of both sides plus session creation.

Workers are warm.
The candidate is a copy of the right export in which one Conv weight is scaled by 1.01.
"""

import time
from pathlib import Path
from statistics import median
from types import SimpleNamespace

from tensoraudit.audit import localise as step
from tensoraudit.audit.execute import run_candidates, run_reference
from tensoraudit.audit.judge import judge
from tensoraudit.audit.prepare import choose_samples, describe_reference, identify_artifacts, start_workers
from tensoraudit.options import make_options
from tensoraudit.probes.limits import Limits
from tensoraudit.probes.pool import Pool
from tensoraudit.steps import new_audit

HERE = Path(__file__).resolve().parent
REPEATS = 11
LIMIT = 3.0


def make_candidate(pool, reference, sample):
    """Export in the worker, then spoil one weight in this process (a benchmark may import onnx)."""
    import onnx
    from onnx import numpy_helper

    path = pool.folder / "right.onnx"
    how = {"route": "torch_onnx_dynamo", "inputs": sample, "dynamic": {}, "opset": None, "path": str(path)}
    params = {**reference.params, **how}
    outcome = pool.run("pytorch", "pytorch.export", params)
    assert outcome.status == "ok", outcome.reason
    model = onnx.load(path)
    conv = [node for node in model.graph.node if node.op_type == "Conv"][6]
    weight = next(tensor for tensor in model.graph.initializer if tensor.name == conv.input[1])
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * 1.01, weight.name))
    spoiled = HERE.parent / "out" / "localise.onnx"
    spoiled.parent.mkdir(exist_ok=True)
    onnx.save(model, spoiled)
    return spoiled, conv.name, len(model.graph.node)


def alternate(*actions):
    """Median seconds of each action; they take turns, so that a busy moment hits all of them."""
    times = [[] for _ in actions]
    for _ in range(REPEATS):
        for taken, action in zip(times, actions, strict=True):
            clock = time.perf_counter()
            action()
            taken.append(time.perf_counter() - clock)
    return [median(taken[1:]) for taken in times]


def plain(pool, reference, candidate, wire):
    """One run of each side without floor; a session's path is given anew, so that it is created."""
    once = {"inputs": [wire], "repeat": 1, "oracle": False, "perturbations": 0, "device": "cpu"}
    outcome = pool.run("pytorch", "pytorch.run", {**reference.params, **once})
    request = {**candidate.params, "inputs": [wire], "repeat": 1, "level": "disable"}
    other = pool.run("onnxruntime", "onnxruntime.run", request)
    forget = pool.run("onnxruntime", "onnxruntime.describe", {"path": str(HERE.parent / "out" / "other.onnx")})
    return outcome, other, forget


def main():
    from shutil import copyfile

    from tensoraudit.audit.probing import wire
    from tensoraudit.audit.state import Candidate

    options = make_options({})
    with Pool(limits=Limits(timeout=300)) as pool:
        audit = new_audit(options, f"{HERE / 'cnn.py'}:make_deep_model").add(pool=pool)
        for prepare in (identify_artifacts, start_workers, describe_reference, choose_samples):
            audit = prepare(audit)
        sample = wire(pool, audit.samples[0])
        path, faulty, nodes = make_candidate(pool, audit.reference, sample)
        copyfile(path, path.with_name("other.onnx"))
        candidate = Candidate("candidate", "onnxruntime", {"path": str(path)}, "onnx", True, path)
        audit = audit.add(candidates=(candidate,))
        for run in (run_reference, run_candidates, judge):
            audit = run(audit)
        found = SimpleNamespace(audit=None)

        def localise():
            found.audit = step.localise(audit)

        base, took = alternate(lambda: plain(pool, audit.reference, candidate, sample), localise)
        first = found.audit.divergences["candidate"]
        print(f"  {nodes} nodes, faulty {faulty}, found {first.candidate_node}")
        print(f"  plain run of both sides and a session {base * 1000:7.1f} ms")
        print(f"  localisation                          {took * 1000:7.1f} ms   {took / base:.2f}x (limit {LIMIT}x)")


if __name__ == "__main__":
    main()
