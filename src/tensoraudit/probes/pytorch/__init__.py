"""Jobs of the PyTorch worker: the only place that imports torch."""
