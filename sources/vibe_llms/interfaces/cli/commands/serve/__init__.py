"""``vibe serve``: programs that answer others over HTTP."""
