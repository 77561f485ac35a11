"""The TensorFlow Lite worker: runs .tflite files with LiteRT's interpreter."""
