"""What can be said: canisters, contents, requests and responses, as frozen values.

May import the standard library, attrs, and the errors; the codec also cattrs and msgspec, when
it is first used. Refuses to know vendors, files, the network, and how anything is shown.
"""
