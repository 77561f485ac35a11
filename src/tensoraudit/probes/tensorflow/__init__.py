"""Jobs of the TensorFlow worker: the only place that imports TensorFlow and Keras."""
