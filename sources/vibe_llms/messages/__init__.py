"""Messages as frozen values: canisters, contents, requests and responses.

May import the standard library, attrs, and the errors; the codec also cattrs and msgspec, when
it is first used. Must not import or know vendors, files, the network, or any display code.
"""
