"""The irreducible parts of a scan, each measured in a process of its own: prints seconds as JSON.

Start torch and build the model, export by both routes, start ONNX Runtime, run both sides twice.
"""

import json
import sys
import tempfile
import time
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
HERE = Path(__file__).parent


def pytorch_parts(folder):
    clock = time.perf_counter()
    import torch

    sys.path.append(str(HERE))
    import cnn

    model, inputs = cnn.make_model(), cnn.sample_inputs()
    times = {"start torch": time.perf_counter() - clock}
    clock = time.perf_counter()
    axes = {"input": {0: "batch"}}
    torch.onnx.export(model, inputs, folder / "legacy.onnx", dynamo=False, dynamic_axes=axes, input_names=["input"])
    times["export by TorchScript"] = time.perf_counter() - clock
    clock = time.perf_counter()
    how = {"dynamic_shapes": ({0: "batch"},), "external_data": False, "verbose": False}
    torch.onnx.export(model, inputs, folder / "dynamo.onnx", dynamo=True, **how)
    times["export by dynamo"] = time.perf_counter() - clock
    clock = time.perf_counter()
    with torch.no_grad():
        model(*inputs), model(*inputs)
    times["two runs of torch"] = time.perf_counter() - clock
    return times


def onnxruntime_parts(folder):
    clock = time.perf_counter()
    import numpy as np
    import onnxruntime

    session = onnxruntime.InferenceSession(folder / "dynamo.onnx", providers=["CPUExecutionProvider"])
    times = {"start ONNX Runtime": time.perf_counter() - clock}
    clock = time.perf_counter()
    feed = {session.get_inputs()[0].name: np.zeros((2, 3, 29, 31), np.float32)}
    session.run(None, feed), session.run(None, feed)
    times["two runs of ONNX Runtime"] = time.perf_counter() - clock
    return times


def by_hand(folder):
    """What an engineer would run instead: torch's own export with report and verification."""
    clock = time.perf_counter()
    import torch

    sys.path.append(str(HERE))
    import cnn

    how = {"report": True, "verify": True, "verbose": False, "artifacts_dir": folder}
    torch.onnx.export(cnn.make_model(), cnn.sample_inputs(), folder / "hand.onnx", dynamo=True, **how)
    return {"torch.onnx.export(report, verify)": time.perf_counter() - clock}


SIDES = {"pytorch": pytorch_parts, "onnxruntime": onnxruntime_parts, "hand": by_hand}

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as default:
        folder = Path(sys.argv[2] if len(sys.argv) > 2 else default)
        print(json.dumps(SIDES[sys.argv[1]](folder)))
