"""Numerical equivalence. Numpy only; knows no framework, no file, nothing else of ours.

The way of a comparison:

comparison   `compare_arrays`: two mappings of name to array in, one `Comparison` out
sides        reads what the caller hands over, and puts together a `case` for each pair of outputs
pairing      which candidate output belongs to which reference output
tensor       compares one output
structure    the structural rules, before any number counts
metrics      how far two arrays are apart, in one pass over memory (`blocks`, `ulp`)
gaps         how far two numbers are apart, whatever their types: complex ones, integers of 64 bits
floor        how far apart two right computations would be
decisions    what a user would decide from a tensor (argmax, sign), and whether it changed
verdict      the six verdicts and the table that picks one, by the limits of `tolerance`
layout       "matches after transpose"
detail       quantiles and a histogram, for tensors that fail
indices      index outputs (argmax, top-k) and the scores that they point into

Beside it:

inputs       input arrays from a signature; `samples`: variations of a sample; `sizes`: sizes of dynamic dimensions
alignment    which ONNX value corresponds to which traced PyTorch event
localise     the first aligned pair that diverges
screen       a look at two tensors that needs no floor
"""
