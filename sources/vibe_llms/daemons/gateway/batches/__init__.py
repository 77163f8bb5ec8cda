"""Files and batches of clients.

Requests to models whose vendors have batch APIs are submitted there. All others are requests to the
gateway itself, so that a batch works for all models and protocols of the gateway, with the client's
key, its limits and its budget. Files and batches lie in the data directory; results are on disk
before they count.
"""
