"""Subcommands of ``vibe memory``."""
