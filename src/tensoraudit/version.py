"""The version, alone, so that anything may name it."""

__version__ = "0.1.0"
