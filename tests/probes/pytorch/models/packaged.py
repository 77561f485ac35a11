"""A model file inside a package."""

from .layers import Scale


def build():
    return Scale(3)
