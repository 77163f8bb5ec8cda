"""Batches that any worker performs: rows of a database, of which each takes a chunk at a time.

May import the agents' own modules and the channel of a batch. Refuses to know DBOS, which
batches do without.
"""
