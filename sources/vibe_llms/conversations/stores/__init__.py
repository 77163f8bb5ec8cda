"""Stores of conversations: the protocol, one in memory, one in a directory.

May import the messages, the errors, and a conversation's metadata. Refuses to know the
`Conversation` object, models, and what canisters mean beyond the bytes they carry.
"""
