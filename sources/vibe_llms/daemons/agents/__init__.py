"""The daemon that owns runs: a run continues after the client that started it has disconnected.

May import agents and all packages below. Must not execute runs itself: a host does.
"""
