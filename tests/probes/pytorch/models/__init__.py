"""A package of models, so that relative imports are tested too."""
