"""Requests to vendors, and their answers. Never imports ``serving``."""
