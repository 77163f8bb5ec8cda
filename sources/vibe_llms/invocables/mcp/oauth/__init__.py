"""Authorization with OAuth, by the official package's flow.

``settings`` has the user's settings and the protocol for asking a person. ``flow`` runs the flow,
and is imported, with the official package, on the first authorization. It uses the redirect target
of the browser (``loopback``), the storage (``token_storage``), and the errors (``errors``).
"""
