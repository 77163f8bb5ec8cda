"""Files that only grow, line by line: what was acknowledged is there, whatever happened since.

A log is locked by whoever writes to it (``locks``), mended where a crash has torn its end
(``lines``), waited for until it is on the disk (``disk``), and counted, so that lines which are
gone are missed (``tallies``). The messages of a conversation, the events of its runs and the
journal of a batch are such files. May import the errors and the files; refuses to know what the
lines say, and which folder they lie in.
"""
