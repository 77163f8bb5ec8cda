"""User interfaces of the package; the first is the command line.

May import everything; nothing imports it. Refuses code that another program could use too:
that belongs in a lower package.
"""
