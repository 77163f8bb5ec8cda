"""The other half: what a registry has, offered to others as an MCP server, in both eras.

The ``desk`` lists and calls; ``stdio`` and ``sessions`` let clients come to it. May import
invocables and the official package. Refuses to know which ensembles these are, and who may come.
"""
