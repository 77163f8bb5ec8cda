"""Channels: a model, a prompt, a parser and the state of a conversation, put together.

May import the other instruments and whatever lies below. Refuses to know how a model is asked or
a tool is performed: a channel composes what is to be said, and hands it on.
"""
