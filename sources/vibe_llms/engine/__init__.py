"""The engine: what a conversation does next, until it ends.

A table defines which state follows from the last turn; a pure machine decides the next command
within the limits; a driver performs the command and records events about it. May import
conversations, invocables, and the protocols of providers. Must not know where a run is executed,
who approves, nor any vendor.
"""
