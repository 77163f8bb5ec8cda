"""Bytes and frames: how a request goes out and how its answer comes back.

May import the exceptions, limits and secrets. Refuses to know canisters, dialects and vendors,
and never sends a request twice: what may be repeated is decided above.
"""
