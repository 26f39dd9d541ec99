# SPDX-License-Identifier: Apache-2.0

"""An HTTP server in a thread of the test, and whether another one answers."""

import http.client
import http.server
import threading

import fixtures


class HTTPServer(fixtures.Fixture):
    """Serves at .url, on a port of its own.

    What subclasses have is _handler(), which returns a class of handlers.
    """

    def _setUp(self):
        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0),
                                                 self._handler())
        server.daemon_threads = True
        self.url = f'http://127.0.0.1:{server.server_address[1]}'
        thread = threading.Thread(target=server.serve_forever, daemon=True,
                                  kwargs={'poll_interval': 0.05})
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)


def answers(port, path='/'):
    """Tell whether a server of ours answers with 200."""
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=10)
    try:
        connection.request('GET', path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
