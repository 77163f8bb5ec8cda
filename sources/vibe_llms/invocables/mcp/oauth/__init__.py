"""Being let in by a server that wants OAuth, over the official package's flow.

``settings`` is what the user says, and who asks a person. ``flow`` does it, and is imported, with
the official package, when somebody is to be let in; below it are where the browser comes back to
(``loopback``), what is kept (``token_storage``), and what goes wrong (``errors``).
"""
