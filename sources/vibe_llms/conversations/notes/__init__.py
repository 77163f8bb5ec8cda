"""Notes: small texts in a store that outlive conversations; the memory of models.

May import the foundation, logs, the clock of messages and the exceptions. Must not know the meaning
of a note's name or text, which is that of :mod:`vibe_llms.memory`.
"""
