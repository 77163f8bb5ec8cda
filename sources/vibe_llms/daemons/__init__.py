"""Long-running servers.

``server`` is the layer below an ASGI application: sockets, TLS, HTTP, worker processes. It serves
any ASGI 3 application, and any other ASGI server can replace it. May import everything below
``flows``; must not know the command line, nor how its output is formatted.
"""
