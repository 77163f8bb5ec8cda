"""The commands below ``vibe flow``, one module each; ``group`` puts them together."""
