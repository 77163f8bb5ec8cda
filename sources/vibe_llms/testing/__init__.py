"""Tests for authors of plugins: simulated vendors on loopback, and contracts that plugins must
meet.

May import everything; only tests and the command ``vibe conformance`` import it. Must not be needed
at run time.
"""
