"""Servers and sockets on loopback, byte by byte."""
