"""Where runs are performed: what stands behind the engine's ``RunContext``, and their logs.

May import the engine and whatever lies below. Refuses to decide anything: that is the engine's.
"""
