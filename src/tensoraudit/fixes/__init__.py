"""Mechanical repairs of Python source: a text and what to change give a new text.

Nothing here reads or writes files, and nothing here knows rules or findings. Only `apply` and what it calls need
LibCST, so that rules can be compiled without it.
"""
