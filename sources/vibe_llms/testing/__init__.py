"""For the authors of plugins: vendors that can be had on loopback, and what a provider must keep.

May import everything; nothing imports it but tests, and the command that is named after it.
Refuses to be needed at run time.
"""
