"""Program that the conformance suite starts for each scenario: ``SOCKET URL``.

It passes the scenario to the test process over a socket, and uses only the standard library:
importing the package for each of fifty scenarios would take a minute.
"""

import json
import os
import socket
import sys


def main() -> int:
    variables = {
        name: text for name, text in os.environ.items() if name.startswith("MCP_CONFORMANCE_")
    }
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(sys.argv[1])
        connection.sendall(
            json.dumps({"url": sys.argv[2], "environment": variables}).encode() + b"\n"
        )
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    error = json.loads(answer)["error"]
    sys.stderr.write(error)
    return 1 if error else 0


if __name__ == "__main__":
    sys.exit(main())
