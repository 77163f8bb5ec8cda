"""What the fields of the vendors' protocols mean: one package a protocol, both directions.

May import the messages, events and models. Refuses to know vendors, sockets and files: all of
it is pure functions and machines over plain data, so that a provider and a gateway share it.
What vendors of one protocol do differently is data here (``quirks``), chosen by a provider.
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
    "normalize_same": "serving.fitting",
    "produce_error": "calling.errors",
    "produce_processors": "calling.requests",
    "touches_quirks": "serving.fitting",
}
"""The names that each of the packages has, and the module below it that defines them."""
