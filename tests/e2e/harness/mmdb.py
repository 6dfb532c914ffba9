"""Databases of addresses in the MaxMind DB format (https://maxmind.github.io/MaxMind-DB/), for tests.

    write(path, {"192.0.2.0/24": country("DE"), "2001:db8::/32": asn(64496)}, ip_version=6)
"""

import ipaddress
import os

SEPARATOR = b"\0" * 16
MARKER = b"\xab\xcd\xefMaxMind.com"
POINTER, STRING, BYTES, UINT16, UINT32, MAP, UINT64, ARRAY = 1, 2, 4, 5, 6, 7, 9, 11
BOOLEAN = 14


class Short(int):
    """A number of 16 bits."""


class Long(int):
    """A number of 64 bits."""


def country(code):
    return {"country": {"iso_code": code, "geoname_id": 1}}


def asn(number, name="Example"):
    return {"autonomous_system_number": number, "autonomous_system_organization": name}


def control(kind, size):
    """The bytes in front of a value."""
    more = b""
    if size >= 285:
        size, more = 30, (size - 285).to_bytes(2, "big")
    elif size >= 29:
        size, more = 29, (size - 29).to_bytes(1, "big")
    first = (kind << 5 if kind < 8 else 0) | size
    return bytes([first]) + (bytes([kind - 7]) if kind >= 8 else b"") + more


def encode(value):
    if isinstance(value, bool):
        return control(BOOLEAN, int(value))
    if isinstance(value, int):
        kind = {Short: UINT16, Long: UINT64}.get(type(value), UINT32)
        digits = value.to_bytes((value.bit_length() + 7) // 8, "big")
        return control(kind, len(digits)) + digits
    if isinstance(value, str):
        return control(STRING, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return control(ARRAY, len(value)) + b"".join(map(encode, value))
    assert isinstance(value, dict)
    return control(MAP, len(value)) + b"".join(encode(key) + encode(item) for key, item in value.items())


def bits_of(network, ip_version):
    """The bits of a prefix from the root of the tree."""
    network = ipaddress.ip_network(network)
    bits = f"{int(network.network_address):0{network.max_prefixlen}b}"[:network.prefixlen]
    return "0" * 96 + bits if ip_version == 6 and network.version == 4 else bits


def build(records, ip_version=6, record_size=28, kind="Test"):
    """The bytes of a database. A record is of the longest prefix that holds an address."""
    nodes, data, offsets = [[None, None]], b"", {}
    for network, record in sorted(records.items(), key=lambda item: ipaddress.ip_network(item[0]).prefixlen):
        encoded = encode(record)
        if encoded not in offsets:
            offsets[encoded] = len(data)
            data += encoded
        at, bits = 0, bits_of(network, ip_version)
        for bit in bits[:-1]:
            following = nodes[at][int(bit)]
            if not isinstance(following, int):
                nodes.append([following, following])  # the record of a shorter prefix goes on on both sides
                following = nodes[at][int(bit)] = len(nodes) - 1
            at = following
        nodes[at][int(bits[-1])] = ("data", offsets[encoded])

    def number(side):
        if side is None:
            return len(nodes)
        return side if isinstance(side, int) else len(nodes) + len(SEPARATOR) + side[1]

    tree = b""
    for node in nodes:
        left, right = map(number, node)
        if record_size == 28:
            middle = (left >> 24) << 4 | right >> 24
            tree += (left & 0xffffff).to_bytes(3, "big") + bytes([middle]) + (right & 0xffffff).to_bytes(3, "big")
        else:
            tree += left.to_bytes(record_size // 8, "big") + right.to_bytes(record_size // 8, "big")
    metadata = {"node_count": len(nodes), "record_size": Short(record_size), "ip_version": Short(ip_version),
                "database_type": kind, "languages": ["en"], "binary_format_major_version": Short(2),
                "binary_format_minor_version": Short(0), "build_epoch": Long(1700000000),
                "description": {"en": "made for a test"}}
    return tree + SEPARATOR + data + MARKER + encode(metadata)


def write(path, records, **how):
    """Put a database in place of the file at once, as updaters do."""
    beside = f"{path}.new"
    with open(beside, "wb") as file:
        file.write(build(records, **how))
    os.rename(beside, path)
