"""Subcommands of ``vibe recall``."""
