"""Runs that outlive whoever asked for them: orders, who performs them, and one face for all.

May import flows and whatever lies below. Refuses to know how they are served over HTTP: that is the
daemon's; ``remote`` asks it as any client would.
"""
