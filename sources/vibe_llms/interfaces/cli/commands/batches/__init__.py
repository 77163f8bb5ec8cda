"""``vibe batches``: what workers perform, seen and spoken to from any machine."""
