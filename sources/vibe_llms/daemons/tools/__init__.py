"""Ensembles as an MCP server, over HTTP and over standard input and output.

May import ensembles, the configuration and the modules shared by all daemons. Must not know models:
it does not start if a provider is configured.
"""
