"""How servers read the path of a request: each function gives the path that the server looks up, or
None where it refuses. They are models of the rules that those servers have for paths."""

from urllib.parse import unquote_to_bytes


def _decode(path):
    """Once; what is no escape stands for itself."""
    return unquote_to_bytes(path).decode("latin-1")


def _merge(path):
    while "//" in path:
        path = path.replace("//", "/")
    return path


def _resolve(path, clamps=False):
    kept = []
    segments = path.split("/")[1:]
    for i, segment in enumerate(segments):
        is_last = i == len(segments) - 1
        if segment == "..":
            if not kept and not clamps:
                return None
            kept = kept[:-1]
        elif segment != ".":
            kept.append(segment)
            continue
        if is_last:
            kept.append("")
    return "/" + "/".join(kept)


def nginx(path):
    decoded = _decode(path)
    return None if "\0" in decoded else _resolve(_merge(decoded))


def nginx_without_merging(path):
    return _resolve(_decode(path))


def apache(path):
    return None if "%2f" in path.lower() else nginx(path)


def tomcat(path):
    """Parameters go first, each up to the next slash."""
    lower = path.lower()
    if "\\" in path or "%2f" in lower or "%5c" in lower:
        return None
    return nginx("/".join(segment.split(";")[0] for segment in path.split("/")))


def go(path):
    return _resolve(_merge(_decode(path)), clamps=True)


def wsgi(path):
    """Flask, Django, Rack: decoded, and looked up as it is."""
    return _decode(path)


def express(path):
    """As it is, in any case; a trailing slash is no matter."""
    lower = path.lower()
    return lower[:-1] if lower.endswith("/") and len(lower) > 1 else lower


def iis(path):
    for overlong, plain in (("%c0%af", "/"), ("%c0%ae", "."), ("%c1%9c", "\\")):
        path = path.replace(overlong, plain).replace(overlong.upper(), plain)
    decoded = _decode(path).replace("\\", "/")
    return None if "\0" in decoded else (_resolve(_merge(decoded)) or "").lower()


def decoding_twice(path):
    return nginx(_decode(path))


ALL = (nginx, nginx_without_merging, apache, tomcat, go, wsgi, express, iis, decoding_twice)
