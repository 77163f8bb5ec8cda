"""The gateway: the one process that talks to models, and answers any client in its own protocol.

``faces`` has a module for each protocol; ``upstreams`` says who is asked; an answer is carried
(``carrying``, the same protocol on both sides) or translated (``translating``). Designs, in the
documentation, has the walk. May import the application and the dialects; refuses to know a vendor,
and to retry, route or cache what no table has switched on.
"""
