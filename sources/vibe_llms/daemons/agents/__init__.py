"""The daemon that owns runs: they outlive the client that asked for them.

May import agents and whatever lies below. Refuses to perform anything itself: a host does.
"""
