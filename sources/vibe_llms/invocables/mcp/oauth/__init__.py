"""Authorization with OAuth, over the official package's flow.

``settings`` has the user's settings and the protocol for asking a person. ``flow`` runs it, and is
imported, with the official package, on the first authorization; below it are the browser's redirect
target (``loopback``), the storage (``token_storage``), and the errors (``errors``).
"""
