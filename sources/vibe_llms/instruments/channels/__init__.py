"""Channels: a model, a prompt, a parser and the state of a conversation, combined.

May import the other instruments and all lower packages. Neither sends requests to models nor
executes tools: a channel composes the message and passes it to an engine.
"""
