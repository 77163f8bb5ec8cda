"""Attributes of models: names, purposes, controls, capabilities, and the source of each fact.

Also token counts of texts, images and requests. May import the messages, the tables, the
exceptions and the foundation. Must not know any vendor, protocol or transport: facts about models
are data, in TOML files that ship with the package, come with a plugin or are written by the user.
Nothing is read until a provider is used.
"""
