"""Batches: the same work on each of thousands of inputs, with a journal of their results.

May import the instruments and what lies below. Refuses to know terminals, DBOS and daemons, and
to send anything again: that is the provider's one policy.
"""
