"""Runs that outlive whoever asked for them: orders, who performs them, and one face for all.

May import flows and whatever lies below. Refuses to know of HTTP: that is the daemon's.
"""
