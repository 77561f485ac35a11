"""The steps of an audit: each takes what is known so far and returns it with something added. Runs no framework."""
