"""Flows and tasks: drawn, compiled, played."""
