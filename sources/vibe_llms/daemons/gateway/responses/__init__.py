"""Stored responses and conversations of the Responses protocol.

``storing`` chooses where a response is stored, and prepends what a request continues;
``storing_calls`` stores a response before the client learns its id; ``registry`` lists responses
and their owners; their canisters are in the application's conversation store. ``endpoints`` and
``conversations`` are their paths, ``background`` runs background responses, ``sockets`` speaks the
protocol over WebSockets. Must not know any other protocol.
"""
