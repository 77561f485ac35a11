"""Numerical equivalence. Numpy only; knows no framework, no file, nothing else of ours.

metrics      how far two arrays are apart, in one pass over memory
floor        how far apart two right computations would be
tolerance    the limits, by dtype
decisions    what a user would decide from a tensor (argmax, sign), and whether it changed
indices      index outputs (argmax, top-k) and the scores that they point into
structure    which output belongs to which, and the structural rules
layout       "matches after transpose"
verdict      the six verdicts and the table that picks one
comparison   `compare_arrays`: all of the above over two mappings of name to array
inputs       input arrays from a signature or from a sample, and one-ULP perturbations
alignment    which ONNX value corresponds to which traced PyTorch event
localise     the first aligned pair that diverges
"""
