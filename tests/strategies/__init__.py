"""Hypothesis strategies for what the package's values can be; helpers of the tests."""
