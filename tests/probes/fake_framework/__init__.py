"""A framework that does what no framework should, for the tests of the worker and its pool. It knows no test."""
