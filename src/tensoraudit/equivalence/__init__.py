"""Numerical equivalence. Numpy only; knows no framework, no file, nothing else of ours."""
