"""The demo's control server stays silent when a browser closes its connection at any moment."""

import contextlib
import io
import socket
import struct
import threading
import time
import unittest

from demo import Control


class Paused:
    state = "running"


class SilentServer(unittest.TestCase):
    def test_browser_that_closes_makes_no_traceback(self):
        log = io.StringIO()
        with contextlib.redirect_stderr(log):
            server = Control(Paused(), {}, None)
            for request in (b"GET /demo/processes HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"GET", b""):
                for _ in range(20):
                    browser = socket.create_connection(("127.0.0.1", server.port))
                    browser.sendall(request)
                    # A reset in place of an orderly end.
                    browser.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    browser.close()
            deadline = time.monotonic() + 20
            while threading.active_count() > 2 and time.monotonic() < deadline:
                time.sleep(0.01)
            server.shutdown()
            server.server_close()
        self.assertEqual(log.getvalue(), "")

    def test_other_faults_are_still_shown(self):
        log = io.StringIO()
        with contextlib.redirect_stderr(log):
            server = Control(Paused(), {}, None)
            try:
                raise ValueError("a fault")
            except ValueError:
                server.handle_error(None, ("127.0.0.1", 1))
            server.shutdown()
            server.server_close()
        self.assertIn("a fault", log.getvalue())


if __name__ == "__main__":
    unittest.main()
