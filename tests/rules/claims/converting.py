"""What the scripts of this folder share: converting a TensorFlow function with tf2onnx and comparing both.

Each script is run on its own, by an interpreter that has TensorFlow, with a folder to write models into. It prints one
line of JSON: what it measured, or `{"missing": reason}` when a package is not installed.
"""

import json
import logging
import os
import sys
import warnings
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)


def report(measure):
    """Run `measure(folder)` and print what it returns as the last line."""
    try:
        found = measure(Path(sys.argv[1]))
    except ModuleNotFoundError as error:
        found = {"missing": f"{error.name} is not installed"}
    print(json.dumps(found))


def convert(function, arrays, path, opset=17):
    """Convert a function of TensorFlow tensors, save the file, and return the model."""
    import onnx
    import tensorflow as tf
    import tf2onnx

    signature = [tf.TensorSpec(array.shape, array.dtype) for array in arrays]
    traced = tf.function(function, input_signature=signature)
    model, _ = tf2onnx.convert.from_function(traced, input_signature=signature, opset=opset)
    onnx.save(model, path)
    return model


def run(path, arrays):
    """Run a file in ONNX Runtime on its inputs in order."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {each.name: array for each, array in zip(session.get_inputs(), arrays, strict=True)})


def compared(function, arrays, path, opset=17):
    """Return the nodes of the converted file, and its largest difference from TensorFlow or why it does not run."""
    import numpy as np
    import tensorflow as tf

    model = convert(function, arrays, path, opset)
    row = {"nodes": [node.op_type for node in model.graph.node]}
    try:
        found = run(path, arrays)
    except Exception as error:
        return {**row, "error": str(error)[-400:]}
    wanted = function(*map(tf.constant, arrays))
    pairs = zip(wanted if isinstance(wanted, list | tuple) else [wanted], found, strict=True)
    differences = [float(np.abs(np.asarray(a, np.float64) - b).max()) if a.shape == b.shape else None for a, b in pairs]
    return {**row, "differences": differences, "shapes": [list(array.shape) for array in found]}
