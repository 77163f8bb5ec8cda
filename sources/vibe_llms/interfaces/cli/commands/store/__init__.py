"""The commands below ``vibe store``, one module each."""
