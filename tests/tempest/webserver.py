# SPDX-License-Identifier: Apache-2.0

"""The web server of octavia-tempest-plugin, contrib/test_server, in Python.

Arguments: port, answer. HTTP and UDP; no TLS.
"""

import http.server
import socket
import sys
import threading
import time
import urllib.parse

PORT, ANSWER = int(sys.argv[1]), sys.argv[2]


class Scoreboard:
    lock = threading.Lock()
    current = most = total = 0


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_GET(self):
        parsed = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(parsed.query)
        if parsed.path == '/stats':
            self._say(200, f'maxConn={Scoreboard.most}\n'
                           f'totalConn={Scoreboard.total}\n')
            return
        if parsed.path == '/reset':
            with Scoreboard.lock:
                Scoreboard.most = Scoreboard.total = 0
            self._say(200, 'reset\n')
            return
        with Scoreboard.lock:
            Scoreboard.current += 1
            Scoreboard.total += 1
        try:
            if parsed.path == '/slow':
                time.sleep(float(query.get('delay', ['3s'])[0].strip('s')))
            if parsed.path == '/request':
                status = int(query.get('response_code', ['200'])[0])
                lines = [f'{self.command} {self.path} '
                         f'{self.request_version}',
                         f'Host: {self.headers["Host"]}']
                lines += [f'{name.title()}: {value}'
                          for name, value in self.headers.items()
                          if name.lower() != 'host']
                self._say(status, '\n'.join(lines) + '\n\n' + ANSWER)
            else:
                self._say(200, ANSWER)
        finally:
            with Scoreboard.lock:
                Scoreboard.most = max(Scoreboard.most, Scoreboard.current)
                Scoreboard.current -= 1

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_GET

    def do_HEAD(self):
        self.do_GET()

    def _say(self, status, text):
        body = text.encode()
        self.send_response(status)
        self.send_header('Set-Cookie', f'JSESSIONID={ANSWER}')
        self.send_header('Content-Type', 'text/plain; charset=utf-8')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(body)

    def log_message(self, *args):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 200
    address_family = socket.AF_INET6


def answer_udp(family, address):
    with socket.socket(family, socket.SOCK_DGRAM) as server:
        if family == socket.AF_INET6:
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        server.bind((address, PORT))
        while True:
            _, peer = server.recvfrom(1500)
            server.sendto(ANSWER.encode(), peer)


for family, address in ((socket.AF_INET, '0.0.0.0'), (socket.AF_INET6, '::')):
    threading.Thread(target=answer_udp, args=(family, address),
                     daemon=True).start()
Server(('::', PORT), Handler).serve_forever()
