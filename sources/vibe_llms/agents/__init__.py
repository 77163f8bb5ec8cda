"""Background runs: specifications, workers that execute them, and one interface for all callers.

May import flows and whatever lies below. Refuses to know how they are served over HTTP: that is the
daemon's; ``remote`` asks it as any client would.
"""
