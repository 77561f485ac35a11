"""Jobs of the ONNX Runtime worker: the only place that imports onnxruntime and onnx."""
