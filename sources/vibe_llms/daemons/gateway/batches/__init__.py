"""Files and batches of clients: each request of a batch is one request to the gateway itself.

A batch therefore works for all models and protocols of the gateway, with the client's key, its
limits and its budget. Files and batches lie in the data directory; results are on disk before they
count.
"""
