"""Options and exit codes: one short module per command. No logic."""
