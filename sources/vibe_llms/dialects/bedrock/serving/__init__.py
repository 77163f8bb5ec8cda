"""Requests of clients, and answers to them. Not imported to call vendors."""
