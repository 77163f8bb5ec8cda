"""Batches: the same work on each of thousands of inputs, with a journal of their results.

May import the instruments and the packages below. Must not know terminals, DBOS or daemons, and
must not resend a request within one attempt: the provider's retry policy does that.
"""
