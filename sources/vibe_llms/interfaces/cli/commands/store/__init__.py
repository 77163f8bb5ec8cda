"""``vibe store`` and its commands, a module each."""
