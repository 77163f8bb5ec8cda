"""Channels: a model, a prompt, a parser and the state of a conversation, combined.

May import the other instruments and whatever lies below. Does not know how a model is asked or a
tool is executed: a channel composes the message and hands it on.
"""
