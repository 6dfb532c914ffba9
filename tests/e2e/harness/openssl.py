"""A client of TLS whose records are made before they are sent, a server that gives tickets when it likes, and one that
renegotiates: OpenSSL by its C interface, for what Python's ssl does not offer."""

import ctypes
import ctypes.util
import hmac
import select
import socket
import struct
import threading

_ssl = ctypes.CDLL(ctypes.util.find_library("ssl"))
_crypto = ctypes.CDLL(ctypes.util.find_library("crypto"))
for _library, _result, _names in (
        (_ssl, ctypes.c_void_p, ("TLS_client_method", "TLS_server_method", "SSL_CTX_new", "SSL_new")),
        (_ssl, ctypes.c_void_p, ("SSL_get_session",)),
        (_ssl, ctypes.c_size_t, ("SSL_get_client_random", "SSL_get_server_random", "SSL_SESSION_get_master_key")),
        (_crypto, ctypes.c_void_p, ("BIO_s_mem", "BIO_new", "EVP_CIPHER_CTX_new", "EVP_aes_128_gcm")),
        (_ssl, None, ("SSL_set_bio", "SSL_set_connect_state", "SSL_free", "SSL_CTX_free"))):
    for _name in _names:
        getattr(_library, _name).restype = _result

TLS_1_2, TLS_1_3 = 0x0303, 0x0304
ALERT, HANDSHAKE, CONTENT = 21, 22, 23  # kinds of records
_SET_MIN_VERSION, _SET_MAX_VERSION, _SET_HOST_NAME, _PENDING = 123, 124, 55, 10
_READ_BYTES = 16 * 1024
_CIPHER_1_2 = b"ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES128-GCM-SHA256"  # of which Sealer makes records
_GET_TAG, _TAG_BYTES = 0x10, 16


def _pointer(value):
    return ctypes.c_void_p(value)


class RecordClient:
    """Its handshake is made over `sock`; afterwards records() gives what was written since, to be sent at will."""

    def __init__(self, sock, name, version):
        self.sock = sock
        self._context = _pointer(_ssl.SSL_CTX_new(_pointer(_ssl.TLS_client_method())))
        for command in (_SET_MIN_VERSION, _SET_MAX_VERSION):
            assert _ssl.SSL_CTX_ctrl(self._context, command, ctypes.c_long(version), None) == 1
        assert _ssl.SSL_CTX_set_cipher_list(self._context, _CIPHER_1_2) == 1
        self._ssl = _pointer(_ssl.SSL_new(self._context))
        self._received, self._made = (_pointer(_crypto.BIO_new(_pointer(_crypto.BIO_s_mem()))) for _ in range(2))
        _ssl.SSL_set_bio(self._ssl, self._received, self._made)
        assert _ssl.SSL_ctrl(self._ssl, _SET_HOST_NAME, ctypes.c_long(0), name.encode()) == 1
        _ssl.SSL_set_connect_state(self._ssl)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _ssl.SSL_free(self._ssl)
        _ssl.SSL_CTX_free(self._context)
        self.sock.close()

    def handshake(self):
        while _ssl.SSL_do_handshake(self._ssl) != 1:
            self.sock.sendall(self.records())
            self._receive()
        self.sock.sendall(self.records())
        return self

    def _receive(self):
        data = self.sock.recv(_READ_BYTES)
        assert data, "the server has closed the connection"
        assert _crypto.BIO_write(self._received, data, len(data)) == len(data)

    def records(self):
        """What was made and not taken yet."""
        made = _crypto.BIO_ctrl(self._made, _PENDING, ctypes.c_long(0), None)
        buffer = ctypes.create_string_buffer(made + 1)
        assert made == 0 or _crypto.BIO_read(self._made, buffer, made) == made
        return buffer.raw[:made]

    def write(self, data):
        """Make a record of `data`."""
        assert _ssl.SSL_write(self._ssl, data, len(data)) == len(data)

    def update_key(self, asks_for_another):
        assert _ssl.SSL_key_update(self._ssl, int(asks_for_another)) == 1
        assert _ssl.SSL_do_handshake(self._ssl) == 1

    def read(self):
        """The next bytes of the server; empty: close_notify."""
        buffer = ctypes.create_string_buffer(_READ_BYTES)
        while True:
            n_read = _ssl.SSL_read(self._ssl, buffer, _READ_BYTES)
            if n_read > 0:
                return buffer.raw[:n_read]
            if _ssl.SSL_get_error(self._ssl, n_read) != 2:
                return b""
            self._receive()

    def sealer(self):
        """What makes records of TLS 1.2 without OpenSSL, which has then made its last."""
        secret, client_random, server_random = (ctypes.create_string_buffer(n) for n in (48, 32, 32))
        _ssl.SSL_SESSION_get_master_key(_pointer(_ssl.SSL_get_session(self._ssl)), secret, 48)
        _ssl.SSL_get_client_random(self._ssl, client_random, 32)
        _ssl.SSL_get_server_random(self._ssl, server_random, 32)
        return Sealer(secret.raw, b"key expansion" + server_random.raw + client_random.raw)


class Sealer:
    """Records of a client by AES-128-GCM (RFC 5246 section 6.3, RFC 5288), such as handshake messages at any time."""

    def __init__(self, secret, seed):
        block, a = b"", seed
        while len(block) < 40:
            a = hmac.digest(secret, a, "sha256")
            block += hmac.digest(secret, a + seed, "sha256")
        self._key, self._salt = block[:16], block[32:36]
        self._n_records = 1  # Finished was the first
        self._context = _pointer(_crypto.EVP_CIPHER_CTX_new())
        self._cipher = _pointer(_crypto.EVP_aes_128_gcm())

    def record(self, kind, content):
        number = struct.pack("!Q", self._n_records)
        self._n_records += 1
        length = ctypes.c_int(0)
        sealed, tag = ctypes.create_string_buffer(len(content)), ctypes.create_string_buffer(_TAG_BYTES)
        about = number + struct.pack("!BHH", kind, TLS_1_2, len(content))
        _crypto.EVP_EncryptInit_ex(self._context, self._cipher, None, self._key, self._salt + number)
        _crypto.EVP_EncryptUpdate(self._context, None, ctypes.byref(length), about, len(about))
        _crypto.EVP_EncryptUpdate(self._context, sealed, ctypes.byref(length), content, len(content))
        _crypto.EVP_EncryptFinal_ex(self._context, tag, ctypes.byref(length))
        _crypto.EVP_CIPHER_CTX_ctrl(self._context, _GET_TAG, _TAG_BYTES, tag)
        payload = number + sealed.raw + tag.raw
        return struct.pack("!BHH", kind, TLS_1_2, len(payload)) + payload


class TicketServer:
    """A server of TLS, one connection at a time, that answers "ok" to every request and gives no ticket but those of
    give_ticket()."""

    ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n"

    def __init__(self, certificate, key, version=TLS_1_3):
        self.resumed = []  # whether each connection was
        self.n_requests = 0
        self._context = _pointer(_ssl.SSL_CTX_new(_pointer(_ssl.TLS_server_method())))
        assert _ssl.SSL_CTX_ctrl(self._context, _SET_MAX_VERSION, ctypes.c_long(version), None) == 1
        assert _ssl.SSL_CTX_set_num_tickets(self._context, ctypes.c_size_t(0)) == 1
        assert _ssl.SSL_CTX_use_certificate_chain_file(self._context, str(certificate).encode()) == 1
        assert _ssl.SSL_CTX_use_PrivateKey_file(self._context, str(key).encode(), 1) == 1
        self._connection = None  # (socket, SSL)
        self._lock = threading.Lock()  # of its SSL
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            connection = _pointer(_ssl.SSL_new(self._context))
            _ssl.SSL_set_fd(connection, sock.fileno())
            if _ssl.SSL_accept(connection) == 1:
                self.resumed.append(_ssl.SSL_session_reused(connection) == 1)
                self._connection = (sock, connection)
                self._serve(connection)
            _ssl.SSL_free(connection)
            sock.close()

    def _serve(self, connection):
        buffer = ctypes.create_string_buffer(_READ_BYTES)
        while select.select([self._connection[0]], [], []):
            with self._lock:
                if _ssl.SSL_read(connection, buffer, _READ_BYTES) <= 0:
                    return
                self.n_requests += 1
                if not self._answer(connection, buffer.raw):
                    return

    def _answer(self, connection, _request):
        return _ssl.SSL_write(connection, self.ANSWER, len(self.ANSWER)) > 0

    def give_ticket(self):
        """Late: while no request is under way."""
        connection = self._connection[1]
        with self._lock:
            assert _ssl.SSL_new_session_ticket(connection) == 1
            assert _ssl.SSL_do_handshake(connection) == 1

    def end_connection(self):
        """By FIN, without close_notify."""
        self._connection[0].shutdown(socket.SHUT_RDWR)

    def stop(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        if self._connection is not None and self._connection[0].fileno() >= 0:
            self.end_connection()
        self._thread.join()
        self._listener.close()
        _ssl.SSL_CTX_free(self._context)


class RenegotiatingServer(TicketServer):
    """One of TLS 1.2 that asks for a certificate on one path, as Apache's SSLVerifyClient in a Location: by a new
    handshake, which a client that declines is sent an alert for."""

    PRIVATE = b"GET /private "

    def __init__(self, certificate, key):
        super().__init__(certificate, key, TLS_1_2)

    def _answer(self, connection, request):
        if not request.startswith(self.PRIVATE):
            return super()._answer(connection, request)
        assert _ssl.SSL_renegotiate(connection) == 1 and _ssl.SSL_do_handshake(connection) == 1
        return _ssl.SSL_do_handshake(connection) == 1
