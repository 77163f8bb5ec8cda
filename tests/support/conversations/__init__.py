"""Helpers for tests of long conversations."""
