"""States, settling, grades, suppression. Knows nothing of report formats."""
