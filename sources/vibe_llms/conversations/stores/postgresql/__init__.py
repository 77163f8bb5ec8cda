"""Conversations, content and logs of runs in PostgreSQL, for several machines that share them.

It may import what is below ``conversations``, and its driver where a database is first wanted. It
knows nothing of runs: their tables are made here, and read and written in ``runs``.
"""
