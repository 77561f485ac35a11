"""One reader per source of facts. Knows nothing of rules."""
