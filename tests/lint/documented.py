"""Every key that the loader knows stands in docs/policy.md, with its default;
every key that is not built yet stands in the manual's list of those. So do the keys of tests of a policy
in docs/testing-policies.md."""

import re

import tree

TABLES = ("src/policy/load/sections.c", "src/policy/load/sections_admin.c",
          "src/policy/load/sections_tls.c", "src/policy/load/sections_upstream.c")
MANUAL = "docs/policy.md"

# Table of keys, the chapter that has its rows, and what stands before the key there.
CHAPTERS = {
    "POLICY": ("Top level", ""), "STORE": ("store", ""), "REDIS_TLS": ("store", "tls."), "LOG": ("log", ""), "MAX": ("max", ""),
    "LISTEN": ("listen", ""), "RESOLVER": ("resolver", ""), "TIMEOUTS": ("timeouts", ""),
    "ADMIN": ("admin", ""), "ADMIN_LISTEN": ("admin", "listen."),
    "TLS": ("tls", ""), "CERTIFICATE": ("tls", "certificates."), "TLS_TICKETS": ("tls", "tls_tickets."),
    "UPSTREAM": ("upstreams", ""), "UPSTREAM_TLS": ("upstreams", "tls."),
    "UPSTREAM_TIMEOUT": ("upstreams", "timeout."), "SERVER": ("upstreams", "servers."),
    "HEALTH": ("upstreams", "health."), "EJECT": ("upstreams", "eject."),
    "QUEUE": ("upstreams", "queue."), "BUFFER": ("upstreams", "buffer."), "LIMIT": ("limits", ""),
    "EXCEPT": ("limits", "except."), "BAN": ("limits", "ban."), "DENY": ("limits", "deny."), "DEFAULTS": ("defaults", ""),
    "ROUTE": ("routes", ""), "ROUTE_LIMIT": ("routes", "limits."), "COST": ("cost", ""), "EDITS": ("request and response", ""), "REQUEST_EDITS": ("request and response", ""),
    "REQUEST_FIELD": ("request and response", "set."), "JWT": ("jwt", ""), "GEO": ("geo", ""), "ROUTE_JWT": ("routes", "jwt."), "MATCH": ("match", ""), "CERTIFICATE_MATCH": ("match", "client_cert."), "RESPOND": ("respond", ""), "REDIRECT": ("respond", "redirect."), "MISSING": ("limits", "missing."), "CORS": ("cors", ""),
}
TESTS_TABLES = "src/policy/tests/sections_test.c"
TESTS_MANUAL = "docs/testing-policies.md"
TESTS_CHAPTERS = {"TEST_FILE": "The file", "TEST_DEFAULTS": "The file", "TEST": "The file",
                  "STEP": "steps", "CLIENT_CERT": "steps", "EXPECT": "expect"}
IN_ITS_PARENTS_ROW = {"except.client"}

TABLE = re.compile(r"struct section_field (\w+)_FIELDS\[\] = \{\n(.*?)\n\};", re.DOTALL)
ROW = re.compile(r'^    (\w*KEY)\(\s*"(\w+)",\s*(?:&\w+|\w+\((?:[^()]|\([^()]*\))*\)),\s*\w+,\s*[\w.\[\]]+,\s*'
                 r'(NULL|"[^"]*")', re.MULTILINE)


def rows_of(table):
    """The keys of a table with their defaults, "" where there is none: lists and maps have none."""
    for form, key, default in ROW.findall(table):
        yield key, default.strip('"') if form == "KEY" and default != "NULL" else ""


def chapters(manual):
    """Text of a manual's chapters, by heading."""
    parts = re.split(r"^## (.*)$", tree.text(manual), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def manual_findings(chapter, name, default):
    if name in IN_ITS_PARENTS_ROW:
        name, inner = name.split(".")
        pattern = rf"^\| `{name}` \|.*\b{inner}\b"
    else:
        pattern = rf"^\| (\[`{name}`\]\([^)]*\)|`{re.escape(name)}`) \|"
        if default:
            pattern += rf".*`{re.escape(default)}`"
    if not re.search(pattern, chapter, re.MULTILINE):
        yield f"{MANUAL}: a row `{name}`" + (f" with its default `{default}`" if default else "")


def findings():
    manual = chapters(MANUAL)
    tables = [table for path in TABLES for table in TABLE.findall(tree.text(path))]
    if len(tables) != len(CHAPTERS):
        yield f"{TABLES[0]}: {len(tables)} tables of keys, {len(CHAPTERS)} are known to {__file__}"
    for table, rows in tables:
        heading, before = CHAPTERS[table]
        if len(ROW.findall(rows)) != len(re.findall(r"KEY\(", rows)):
            yield f"{TABLES[0]}: {table}_FIELDS has rows of another form than {__file__} knows"
        for key, default in rows_of(rows):
            yield from manual_findings(manual.get(heading, ""), before + key, default)


def tests_findings():
    manual = chapters(TESTS_MANUAL)
    for table, rows in TABLE.findall(tree.text(TESTS_TABLES)):
        for key, default in rows_of(rows):
            pattern = rf"^\| `{key}` \|"
            if default:
                pattern += f".*`{re.escape(default)}`"
            if not re.search(pattern, manual[TESTS_CHAPTERS[table]], re.MULTILINE):
                yield f"{TESTS_MANUAL}: a row `{key}` under \"{TESTS_CHAPTERS[table]}\", default {default}"


tree.finish(list(findings()) + list(tests_findings()))
