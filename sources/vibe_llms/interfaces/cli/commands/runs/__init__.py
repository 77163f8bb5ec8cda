"""``vibe runs``: what runs on this machine, seen and spoken to from any terminal."""
