"""HTTP/1.1 client on asyncio's transports.

``heads`` composes requests; ``dialing`` connects, through proxies and with TLS (``tls``); a
``connection`` writes a request and parses the response with httptools; ``pools`` keep connections
alive; ``codings`` decompress bodies. ``vibe_llms.wire.direct`` is the transport on top of them, and
the ensemble that fetches pages uses them directly. Errors are the exceptions of ``faults``, which
``vibe_llms.wire.failures`` translates; only invalid requests raise RequestError.
"""
