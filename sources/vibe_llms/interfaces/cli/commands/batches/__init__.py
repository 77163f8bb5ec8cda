"""``vibe batches``: show and control the workers' batches from any machine."""
