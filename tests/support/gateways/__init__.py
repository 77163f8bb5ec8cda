"""Gateways before upstreams: files, keys, nonsense, chaos, and the clients that judge them."""
