"""JA4 of a ClientHello, after FoxIO's description; independent of the program's."""

import hashlib
import struct

VERSIONS = {0x304: "13", 0x303: "12", 0x302: "11", 0x301: "10", 0x300: "s3"}


def is_grease(value):
    return value in {0x0a0a + 0x1010 * i for i in range(16)}


def numbers(data):
    return [value for value, in struct.iter_unpack(">H", data) if not is_grease(value)]


def message_of(stream):
    """The first handshake message of what a client sent, records joined."""
    message = b""
    while len(message) < 4 or len(message) < 4 + int.from_bytes(message[1:4], "big"):
        kind, _, length = struct.unpack(">BHH", stream[:5])
        assert kind == 22 and len(stream) >= 5 + length, "the ClientHello is not whole"
        message, stream = message + stream[5:5 + length], stream[5 + length:]
    return message


def ja4(stream):
    body = message_of(stream)[4:]
    version, at = int.from_bytes(body[:2], "big"), 34
    at += 1 + body[at]
    length = int.from_bytes(body[at:at + 2], "big")
    ciphers = numbers(body[at + 2:at + 2 + length])
    at += 2 + length
    at += 1 + body[at]
    types, alpn, algorithms, has_name = [], b"", [], False
    rest = body[at + 2:]
    while rest:
        kind, length = struct.unpack(">HH", rest[:4])
        value, rest = rest[4:4 + length], rest[4 + length:]
        if is_grease(kind):
            continue
        types.append(kind)
        if kind == 0:
            has_name = True
        elif kind == 16:
            alpn = value[3:3 + value[2]]
        elif kind == 13:
            algorithms = numbers(value[2:])
        elif kind == 43:
            version = max(numbers(value[1:]), default=version)
    ends = "00"
    if alpn:
        is_plain = all(chr(byte).isalnum() and byte < 128 for byte in (alpn[0], alpn[-1]))
        ends = chr(alpn[0]) + chr(alpn[-1]) if is_plain else alpn.hex()[0] + alpn.hex()[-1]

    def shortened(text):
        return hashlib.sha256(text.encode()).hexdigest()[:12] if text else "0" * 12

    def listed(values):
        return ",".join(f"{value:04x}" for value in values)

    extensions = listed(sorted(kind for kind in types if kind not in (0, 16)))
    if algorithms:
        extensions += "_" + listed(algorithms)
    return (f"t{VERSIONS.get(version, '00')}{'d' if has_name else 'i'}{min(len(ciphers), 99):02}{min(len(types), 99):02}"
            f"{ends}_{shortened(listed(sorted(ciphers)))}_{shortened(extensions)}")
