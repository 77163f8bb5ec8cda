"""Instruments, the entry points of scripts and applications: models, engines, channels, parsers.

May import whatever lies below. Must not contain logic of protocols: an instrument composes a
request or a conversation and hands it on.
"""
