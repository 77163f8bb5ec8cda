"""Clients of the agents daemon's faces."""
