"""Jobs of the JAX worker: the only place that imports jax."""
