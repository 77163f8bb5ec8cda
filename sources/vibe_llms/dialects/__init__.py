"""What the fields of the vendors' protocols mean: one package a protocol, both directions.

May import the messages, events and models. Refuses to know vendors, sockets and files: all of
it is pure functions and machines over plain data, so that a provider and a gateway share it.
What vendors of one protocol do differently is data here (``quirks``), chosen by a provider.
"""
