"""The engine: what a conversation does next, until it ends.

A table says which state follows from the last turn; a pure machine decides the next command
within the limits; a driver performs it and tells what happened. May import conversations,
invocables, and the protocols of providers. Refuses to know where a run is performed, who
approves, and any vendor.
"""
