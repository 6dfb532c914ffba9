"""An include goes to its own module or to one on a lower floor, and third-party headers stay in
their folders: the arrows of docs/architecture.md."""

import re

import tree

FLOORS = {"base": 0, "limit": 1, "http": 1, "net": 1, "policy": 2, "store": 2, "proxy": 3,
          "admin": 4, "trial": 4, "app": 5}

# Header, and the files that may include it.
THIRD_PARTY = (
    (r"yaml\.h", r"src/policy/loader[^/]*\.[ch]"),
    (r"hiredis/.*", r"src/store/.*"),
    (r"event2/.*", r"src/(net|store|proxy)/.*|src/app/echo[^/]*\.[ch]"),
    (r"llhttp\.h", r"src/http/.*"),
    (r"sodium\.h", r"src/base/.*"),
    (r"jansson\.h", r"src/(admin|app)/.*"),
)

# What a module must not know although it stands on a lower floor: module, header, why.
FORBIDDEN = (
    ("limit", r"base/(clock|log)\.h", "an algorithm is told the time and says nothing"),
    ("limit", r"(stdio|time|unistd|sys/.*)\.h", "an algorithm does no I/O and reads no clock"),
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
            if wrong:
                yield f"{path}:{line}: {wrong}"


tree.finish(list(findings()))
