"""``vibe serve``: HTTP servers."""
