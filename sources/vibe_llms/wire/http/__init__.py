"""HTTP/1.1 over connections of our own, as the event loop makes them.

A request is written by ``heads``; ``dialing`` finds the way to the other side, through proxies
and by TLS (``tls``); a ``connection`` writes, and lets httptools cut what comes back; ``pools``
keep what can be used again; ``codings`` unpack. ``vibe_llms.wire.direct`` makes a transport of
them, and the ensemble that fetches pages uses them as they are. Nothing here knows our errors
but those for requests that cannot be written: what goes wrong is told by exceptions that
``vibe_llms.wire.failures`` puts into words.
"""
