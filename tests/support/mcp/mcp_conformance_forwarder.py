"""What the conformance suite starts for each scenario: it has the tests meet the suite's server.

Starting a whole Python for each of fifty scenarios would take a minute. Needs nothing but the
standard library: a socket's path and the server's address are its arguments.
"""

import json
import os
import socket
import sys


def main() -> int:
    said = {name: text for name, text in os.environ.items() if name.startswith("MCP_CONFORMANCE_")}
    with socket.socket(socket.AF_UNIX) as door:
        door.connect(sys.argv[1])
        door.sendall(json.dumps({"url": sys.argv[2], "environment": said}).encode() + b"\n")
        answer = b"".join(iter(lambda: door.recv(65_536), b""))
    error = json.loads(answer)["error"]
    sys.stderr.write(error)
    return 1 if error else 0


if __name__ == "__main__":
    sys.exit(main())
