"""Ensembles as an MCP server, over HTTP and over standard input and output.

May import ensembles, the configuration and what all daemons share. Refuses to know models: where a
provider is configured, it does not start.
"""
