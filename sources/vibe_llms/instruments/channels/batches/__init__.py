"""Batches: one question to a model, or one call of any function, for each of thousands of inputs.

May import the other instruments and whatever lies below. Refuses to know terminals, and to send
anything again: that is the provider's one policy.
"""
