"""What runs for long and answers others over the network.

``server`` is what lies below an ASGI application: sockets, TLS, HTTP, worker processes. It serves
any ASGI 3 application, and any other ASGI server can stand in its place. May import everything
below ``flows`` and that; refuses to know the command line, and how its words are shown.
"""
