"""Ways in which people use the package, of which the command line is the first.

May import everything; nothing imports it. Refuses to keep anything a program could use as well:
that belongs further down.
"""
