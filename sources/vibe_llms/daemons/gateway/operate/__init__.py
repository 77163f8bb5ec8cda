"""Operation of the gateway: routes for its page, off unless configured.

``history`` counts the requests of the last hour and keeps the last hundred; ``workers`` exchanges
these among the worker processes of one gateway; ``traffic``, ``routing`` and ``spending`` compose
answers; ``routes`` serves them to clients with an operator's key. Nothing outside of this package
knows of it but ``making``, which adds the routes.
"""
