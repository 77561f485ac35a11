"""Stored weights and training state, read from headers alone: no framework, nothing executed, no weight loaded."""
