"""Dialects: translation between our values and the vendors' protocols, in both directions.

One package for each protocol. May import the messages, events and models. Must not know vendors,
sockets and files: the package consists of pure functions and state machines over plain data, which
providers and gateways share. Differences between vendors of one protocol are data (``quirks``),
chosen by a provider.
"""

HOMES = {
    "PROTOCOL": "quirks",
    "Decoder": "calling.decoder",
    "Quirks": "quirks",
    "StreamWriter": "serving.streams",
    "find_allowed": "serving.invocations",
    "nativize_error": "serving.errors",
    "nativize_request": "calling.requests",
    "nativize_response": "serving.responses",
    "normalize_controls": "serving.requests",
    "normalize_invocables": "serving.invocations",
    "normalize_messages": "serving.messages",
    "normalize_request": "serving.requests",
    "normalize_same": "serving.passthrough",
    "produce_error": "calling.errors",
    "produce_processors": "calling.requests",
    "touches_quirks": "serving.passthrough",
}
"""The public names of each package, with the modules that define the names."""
