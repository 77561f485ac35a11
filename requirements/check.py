"""Refuse an environment with both `onnxruntime` and `onnxruntime-gpu`: they overwrite each other's files."""

import sys
from importlib.metadata import distributions

names = {(d.metadata["Name"] or "").lower().replace("_", "-") for d in distributions()}
if {"onnxruntime", "onnxruntime-gpu"} <= names:
    sys.exit("onnxruntime and onnxruntime-gpu are both installed: uninstall both, then install onnxruntime-gpu alone")
