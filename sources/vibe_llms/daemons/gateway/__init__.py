"""The gateway: the one process that calls models, and answers each client in its protocol.

``stages`` lists the steps of a request in order: start reading there. ``faces`` has a module for
each protocol; an answer is passed through (``passthrough``, if client and vendor use one protocol)
or translated (``translating``). Designs, in the documentation, describes the walk. May import the
application and the dialects; must not know a vendor. Retries, routing and caching need a table.
"""
