"""Suites of tests."""
