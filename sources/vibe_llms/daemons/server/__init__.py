"""Serves an ASGI 3 application over HTTP/1.1, within bounds.

A ``Server`` serves in the event loop that is there; ``run`` does all that a program does besides:
signals, worker processes, and what is said when it is ready. ``ServerSettings`` is the
``[server]`` table of a file.

Beyond ASGI an application is offered one thing, by ``scope["extensions"]["vibe_llms.disconnect"]``:
a function that takes what is to be called, once and in the event loop, as soon as the client has
gone. So no task needs to wait in ``receive`` for that; under other servers, one has to. Refuses to
know what is served.
"""
