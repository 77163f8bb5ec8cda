"""What is known about models: names, purposes, controls, capabilities, and where each fact is from.

So also how many tokens a text, a picture or a request is for a model. May import the messages,
the exceptions, the absence, the resources and plain values below it. It refuses to know any
vendor, any protocol and any transport: facts about models are data, in TOML files that ship with
the package, come with a plugin or are written by the user. Nothing is read until a provider is
asked for.
"""
