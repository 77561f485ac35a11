"""Soft non-maximum suppression through tf2onnx, on four boxes of which three overlap."""

from converting import compared, report


def measure(folder):
    import numpy as np
    import tensorflow as tf

    boxes = np.array([[0, 0, 1, 1], [0, 0.05, 1, 1.05], [0, 0.5, 1, 1.5], [0, 10, 1, 11]], np.float32)
    arrays = [boxes, np.array([0.9, 0.8, 0.7, 0.6], np.float32)]

    def soft(sigma, iou):
        chosen = tf.image.non_max_suppression_with_scores
        return lambda b, s: list(chosen(b, s, 10, iou, soft_nms_sigma=sigma))

    ways = {f"{sigma} {iou}": soft(sigma, iou) for sigma in (0.0, 0.5, 1.0) for iou in (0.5, 1.0)}
    return {name: compared(way, arrays, folder / f"{name}.onnx") for name, way in ways.items()}


report(measure)
