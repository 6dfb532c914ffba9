"""An include goes to its own module or to one on a lower floor, within a module to its own room or to
one that stands before it, and third-party headers stay in their folders: the arrows of
docs/architecture.md. No circle of files has more than two, and the proxy has none."""

import os
import re
import sys

import tree

FLOORS = {"base": 0, "page": 1, "limit": 1, "http": 1, "net": 1, "tls": 2, "jwt": 2, "geo": 2, "http2": 2, "policy": 3,
          "store": 3, "proxy": 4, "admin": 5, "simulation": 5, "app": 6}

# The rooms of a module, sub-folders of src/MODULE, the lowest first. A public header belongs to the
# room of its source. What lies in src/MODULE itself is below all rooms if it is a header; a source
# there puts rooms together and may include any.
ROOMS = {
    "proxy": ("core", "log", "upstream", "exchange", "client", "server"),
    "policy": ("load", "compile", "lint", "tests"),
    "store": ("memory", "redis", "redis/sentinel", "redis/cluster", "replica", "bans", "tenants", "layers"),
    "app": ("ctl", "serve", "explain", "replay"),
}

# Header, and the files that may include it.
THIRD_PARTY = (
    (r"yaml\.h", r"src/policy/load/loader[^/]*\.[ch]"),
    (r"hiredis/.*", r"src/store/.*"),
    (r"event2/.*", r"src/(net|store|proxy)/.*|src/app/echo[^/]*\.[ch]"),
    (r"nghttp2/.*", r"src/http2/.*"),
    (r"openssl/.*", r"src/(tls|jwt)/.*"),
    (r"sodium\.h", r"src/base/.*"),
    (r"maxminddb\.h", r"src/geo/.*"),
    (r"jansson\.h", r"src/(admin|app|jwt)/.*|src/policy/(description|yaml_text)\.c"),
    (r"curl/.*", r"src/app/(ctl/.*|serve/jwks_fetch\.c)"),
)

# What a module must not know although it stands on a lower floor: module, header, why.
FORBIDDEN = (
    ("limit", r"base/(clock|log)\.h", "an algorithm is told the time and says nothing"),
    ("limit", r"(stdio|time|unistd|sys/.*)\.h", "an algorithm does no I/O and reads no clock"),
    ("http2", r"(base/clock|tls/.*|net/.*)\.h|sys/socket\.h|(time|unistd)\.h",
     "an HTTP/2 session is told the time and does no I/O"),
    ("http", r"sys/socket\.h|netinet/.*|arpa/.*", "http knows no sockets"),
    ("store", r"http/.*", "a store knows nothing of HTTP"),
    ("policy", r"net/.*", "a policy does no I/O"),
    ("proxy", r"limit/(?!limit|fields|verdict|calendar).*", "the proxy knows no algorithm"),
    ("proxy", r"store/redis.*|hiredis/.*", "the proxy does not know what Redis is"),
)

# File that is free of the above, and why.
FREE = {
    "src/limit/calendar.c": "no algorithm: it reads the system's zones while a policy is loaded",
}


def module_of(path):
    return path.split("/")[1]


def rooms_of_sources():
    """(module, stem): room of each source and private header; "" is the module's own folder."""
    rooms = {}
    for path in tree.files(".c", ".h", folders=("src",)):
        parts = path.split("/")
        stem = os.path.splitext(parts[-1])[0]
        rooms[(parts[1], stem)] = "/".join(parts[2:-1])
    return rooms


SOURCES = rooms_of_sources()


def room_of(path):
    """The room of a file or, as it is included, of a header."""
    parts = path.split("/")
    if parts[0] in ("src", "include"):
        parts = parts[1:]
    return SOURCES.get((parts[0], os.path.splitext(parts[-1])[0]), "")


def room_arrow(path, header):
    """What is wrong with an include between two rooms of one module, or None."""
    module = module_of(path)
    if module not in ROOMS or header.split("/")[0] != module:
        return None
    room, target = room_of(path), room_of(header)
    if target in ("", room) or (room == "" and path.endswith(".c") and path.startswith("src/")):
        return None
    for name in (room, target):
        if name not in ROOMS[module] and name != "":
            return f"'{name}' is no room of {module}: give it a place in {__file__}"
    if room == "" or ROOMS[module].index(target) > ROOMS[module].index(room):
        return f"'{header}' is in {module}/{target}, above {module}/{room}"
    return None


def unit_of(path):
    """A source and its headers are one unit."""
    parts = path.split("/")
    if parts[0] in ("src", "include"):
        parts = parts[1:]
    return f"{parts[0]}/{os.path.splitext(parts[-1])[0]}"


def circles():
    """The sets of units that include each other in a circle (Tarjan), but for pairs outside of
    the proxy."""
    graph = {}
    for path in tree.files(".c", ".h", folders=("include", "src")):
        targets = graph.setdefault(unit_of(path), set())
        targets.update(unit_of(header) for _, kind, header in tree.includes(path)
                       if kind == '"' and "/" in header)
    index, low, stack, found = {}, {}, [], []

    def visit(unit):
        index[unit] = low[unit] = len(index)
        stack.append(unit)
        for target in sorted(graph.get(unit, ())):
            if target not in index:
                visit(target)
            if target in stack:
                low[unit] = min(low[unit], low[target])
        if low[unit] == index[unit]:
            members = stack[stack.index(unit):]
            del stack[stack.index(unit):]
            if len(members) > 2 or (len(members) == 2 and unit.startswith("proxy/")):
                found.append(sorted(members))

    sys.setrecursionlimit(10000)
    for unit in sorted(graph):
        if unit not in index:
            visit(unit)
    return found


def own_arrow(path, header):
    """What is wrong with the include of a header of ours, or None."""
    module, target = module_of(path), header.split("/")[0]
    if "/" not in header:
        return f"include it as \"{module}/{header}\""
    if target not in FLOORS:
        return f"'{header}' is of no module"
    if module == target:
        if path.startswith("include/") and tree.exists(f"src/{header}"):
            return f"'{header}' is private and this header is not"
        return None
    if FLOORS[target] >= FLOORS[module]:
        return f"'{header}' stands on floor {FLOORS[target]}, {module} on {FLOORS[module]}"
    if not tree.exists(f"include/{header}"):
        return f"'{header}' is no part of the face of {target}"
    return None


def foreign(path, header):
    """What is wrong with the include of a system or third-party header, or None."""
    for pattern, allowed in THIRD_PARTY:
        if re.fullmatch(pattern, header) and not re.fullmatch(allowed, path):
            return f"<{header}> is for {allowed} alone"
    return None


def forbidden(path, header):
    if path in FREE:
        return None
    for module, pattern, why in FORBIDDEN:
        if module_of(path) == module and re.fullmatch(pattern, header):
            return f"'{header}': {why}"
    return None


def findings():
    for path in tree.files(".c", ".h", folders=("include", "src")):
        if path.count("/") < 2:
            yield f"{path}: lies in no module"
            continue
        if module_of(path) not in FLOORS:
            yield f"{path}: '{module_of(path)}' is no module: give it a floor in {__file__}"
            continue
        for line, kind, header in tree.includes(path):
            wrong = own_arrow(path, header) if kind == '"' else foreign(path, header)
            wrong = wrong or forbidden(path, header)
            wrong = wrong or (kind == '"' and room_arrow(path, header))
            if wrong:
                yield f"{path}:{line}: {wrong}"
    for members in circles():
        yield f"a circle of includes: {', '.join(members)}"


tree.finish(list(findings()))
