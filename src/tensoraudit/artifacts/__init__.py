"""Which format a file is, from its content; opens headers safely. Imports no framework and runs nothing stored."""
