"""Providers: the interfaces, and what all providers share: the stream, the assembler, processors.

May import the messages, events, models, the wire and the dialects. Must not name any vendor: the
configuration does, and each vendor's folder below can be deleted without harm to the rest.
"""
