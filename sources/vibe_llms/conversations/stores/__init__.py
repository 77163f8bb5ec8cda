"""Stores of conversations: the protocol, and stores in memory, in a directory and in PostgreSQL.

May import the messages, the errors, and a conversation's metadata. Must not know the
``Conversation`` object, nor models, nor the meaning of canisters, except for the bytes of media.
"""
