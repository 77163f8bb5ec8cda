"""Conversations, content and logs of runs in PostgreSQL, for several machines that share them.

May import the packages below ``conversations``, and the driver when a database is first used. Must
not know runs: their tables are created here, but read and written by ``run_logs``.
"""
