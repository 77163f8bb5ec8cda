"""The commands below ``vibe flow``, one module each."""
