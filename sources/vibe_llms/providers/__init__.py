"""What a provider is, and what all of them share: the stream, the assembler, the processors.

May import the messages, events, models, the wire and the dialects. Refuses to name any vendor:
configuration does, and each vendor's folder below can be deleted without harm to the rest.
"""
