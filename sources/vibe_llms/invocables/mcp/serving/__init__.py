"""MCP server side: the tools of a registry offered to MCP clients, with and without sessions.

``tool_server`` is the server; ``stdio`` and ``sessions`` are its transports. May import invocables
and the official package. Must not know which ensembles it serves, or which clients are permitted.
"""
