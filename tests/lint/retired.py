"""Words that this project used for what the field has a name for stay out of identifiers. The glossary
in docs/architecture.md has the names that are used."""

import re

import tree

# Retired word, and the name in its place. A name in capitals is matched as well.
RETIRED = {
    "aboard": "in_batch", "alike": "identical", "beat": "heartbeat", "desk": "requests",
    "door": "listener", "doors": "listeners", "ear": "subscriber", "ears": "subscribers",
    "edition": "generation", "editions": "generations", "entrance": "connection_limits",
    "errand": "operation", "errands": "operations", "flights": "batches", "keeper": "sync",
    "linked": "compiled", "linker": "compiler", "mend": "reconnect", "moment": "timestamp",
    "moments": "timestamps", "notice": "message", "orphan": "abandoned_request",
    "orphans": "abandoned_requests", "outfit": "resources", "regime": "worker_config",
    "regimes": "worker_configs", "settler": "settlement", "standing": "state",
    "stock": "pools", "stocks": "pools", "tell": "report", "teller": "map_source",
    "told": "reported", "trip": "pending", "untold": "unreported", "wording": "encoded_command",
    "wordings": "encoded_commands",
}

# The name of a test is a sentence and may use any word of English.
WORDS_OF_A_SENTENCE = 7

# Names of libraries.
FOREIGN = re.compile(r"nghttp2_")

IDENTIFIER = re.compile(r"\b[A-Za-z_]\w*\b")
INCLUDE = re.compile(r"^\s*#\s*include[^\n]*", re.MULTILINE)


def findings():
    for path in tree.files(".c", ".h"):
        code = INCLUDE.sub("", tree.code(path))
        for match in IDENTIFIER.finditer(code):
            words = match.group(0).lower().strip("_").split("_")
            if len(words) >= WORDS_OF_A_SENTENCE or FOREIGN.match(match.group(0)):
                continue
            for word in words:
                if word in RETIRED:
                    yield (f"{path}:{tree.line_at(code, match.start())}: {match.group(0)}: say "
                           f"'{RETIRED[word]}' for '{word}'")


tree.finish(list(findings()))
