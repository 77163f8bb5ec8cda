"""Runs on many workers, scheduled by DBOS over SQLite or PostgreSQL.

May import the agents' own modules and, nobody else may, ``dbos`` and ``sqlalchemy``. It schedules:
what was done in a run is known by its log and conversation alone.
"""
