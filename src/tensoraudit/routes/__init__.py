"""One file per real converter, run inside a worker. Frameworks are imported inside functions."""
