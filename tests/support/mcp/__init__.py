"""MCP servers and clients, among them those of the official package and suite."""
