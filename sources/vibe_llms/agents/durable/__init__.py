"""Runs on many workers, scheduled by DBOS over SQLite or PostgreSQL.

May import the agents' own modules and, as the only package, ``dbos`` and ``sqlalchemy``. It only
schedules: the progress of a run is recorded in its log and conversation alone.
"""
