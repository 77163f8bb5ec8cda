"""Convenience on top of everything: what a script or an application talks to first.

May import whatever lies below. Refuses to hold any logic of its own: an instrument composes a
request or a conversation and hands it on.
"""
