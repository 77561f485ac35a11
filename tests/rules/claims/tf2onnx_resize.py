"""The ways to resize an image in TensorFlow, through tf2onnx, on random 8 x 8 images."""

from converting import compared, report


def measure(folder):
    import numpy as np
    import tensorflow as tf

    images = [np.random.default_rng(0).standard_normal((1, 8, 8, 3)).astype(np.float32)]
    resize, old = tf.image.resize, tf.compat.v1.image
    ways = {
        "bilinear": lambda x: resize(x, [13, 11]),
        "nearest": lambda x: resize(x, [13, 11], method="nearest"),
        "area": lambda x: resize(x, [13, 11], method="area"),
        "area_twice": lambda x: resize(x, [16, 16], method="area"),
        "area_half": lambda x: resize(x, [4, 4], method="area"),
        "bicubic": lambda x: resize(x, [13, 11], method="bicubic"),
        "bicubic_twice": lambda x: resize(x, [16, 16], method="bicubic"),
        "bicubic_down": lambda x: resize(x, [5, 3], method="bicubic"),
        "bicubic_corners": lambda x: old.resize_bicubic(x, [13, 11], align_corners=True),
        "bicubic_old": lambda x: old.resize_bicubic(x, [13, 11]),
        "lanczos3": lambda x: resize(x, [13, 11], method="lanczos3"),
        "antialias": lambda x: resize(x, [5, 3], antialias=True),
    }
    return {name: compared(way, images, folder / f"{name}.onnx") for name, way in ways.items()}


report(measure)
