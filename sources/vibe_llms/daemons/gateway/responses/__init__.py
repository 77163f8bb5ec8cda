"""Stored responses and conversations of the Responses protocol.

``storing`` chooses where a response is stored, and prepends the earlier items that a request
continues to its input; ``storing_calls`` stores a response before the client learns its id;
``registry`` lists responses and their owners; their canisters are in the application's conversation
store. ``endpoints`` and ``conversations`` serve the paths of stored responses and conversations,
``background`` runs background responses, ``sockets`` serves the protocol over WebSockets. Must not
know any other protocol.
"""
