"""``vibe runs``: show and control runs on this machine from any terminal."""
