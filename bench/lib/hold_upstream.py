#!/usr/bin/env python3
"""The upstream of bench/hold: hold_upstream.py PORT. A thread a connection.

GET /pattern?bytes=N[&chunked=1]   sends the pattern, with a length or chunked
POST /hash[?pause=SECONDS]         reads the body (64 KiB, then the pause, then the rest) and
                                   answers with its length and SHA-256 as JSON
"""

import hashlib
import http.server
import json
import sys
import time
import urllib.parse

import pattern


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 0

    def log_message(self, *unused):
        pass

    def query(self):
        return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))

    def do_GET(self):
        query = self.query()
        n_bytes, chunked = int(query["bytes"]), "chunked" in query
        self.send_response(200)
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(n_bytes))
        self.end_headers()
        try:
            for block in pattern.blocks(n_bytes):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(block), block) if chunked else block)
            if chunked:
                self.wfile.write(b"0\r\n\r\n")
        except OSError:  # the reader left: that is one of the tests
            self.close_connection = True

    def do_POST(self):
        digest, n_bytes = hashlib.sha256(), 0
        pause = float(self.query().get("pause", 0))
        for piece in self.body():
            digest.update(piece)
            n_bytes += len(piece)
            if pause:
                time.sleep(pause)
                pause = 0
        answer = json.dumps({"bytes": n_bytes, "sha256": digest.hexdigest()}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            yield from self.pieces(int(self.headers["Content-Length"]))
            return
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield from self.pieces(size)
            self.rfile.readline()
        self.rfile.readline()

    def pieces(self, n_bytes):
        while n_bytes:
            piece = self.rfile.read(min(n_bytes, pattern.BLOCK))
            if not piece:
                raise ConnectionError("the body ends early")
            n_bytes -= len(piece)
            yield piece


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, request, client_address):
        pass  # a connection that breaks is the other side's finding


if __name__ == "__main__":
    Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
