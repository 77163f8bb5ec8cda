"""MCP server side: the tools of a registry offered to MCP clients, in both eras of the protocol.

The ``tool_server`` lists and calls; ``stdio`` and ``sessions`` connect clients. May import
invocables and the official package. Does not know which ensembles these are, or which clients are
permitted.
"""
