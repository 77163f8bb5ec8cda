"""Instruments, the entry points of scripts and applications: models, engines, channels, parsers.

May import all lower packages. Must not contain protocol logic: an instrument composes a request or
a conversation, and lower packages process it.
"""
