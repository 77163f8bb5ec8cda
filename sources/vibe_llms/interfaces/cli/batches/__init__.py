"""Input and progress display of ``vibe batch``."""
