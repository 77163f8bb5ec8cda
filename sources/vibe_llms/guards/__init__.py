"""Guards: examine requests, answers, streams and the arguments of tools.

:func:`~vibe_llms.guards.guarding.guard` wraps a model, so that every request to it and every
answer passes the guards. An :class:`~vibe_llms.guards.arguments.ArgumentGuard` examines a call
before its tool is executed. The kinds that ship are in :mod:`vibe_llms.guards.shipped`.

Must not know a vendor, the engine or a daemon; models come to a guard through its context.
"""
