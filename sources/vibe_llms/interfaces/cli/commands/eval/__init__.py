"""Subcommands of ``vibe eval``."""
