"""Terminals, browsers and commands: programs as a person uses them."""
