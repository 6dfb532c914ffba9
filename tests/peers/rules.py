"""What the RFCs ask of a recipient where the strict reader refuses, told by the start of its words.

MUST: refuse it, or for some repair it before it is read or sent on. SHOULD: it is not the grammar, and 400
is what M2.2 asks for. MAY: it may be taken. OURS: a bound or a choice of sluice's, about which the RFCs say
nothing.
"""

MUST, SHOULD, MAY, OURS = "must", "should", "may", "ours"

# (start of the reader's words, what is asked, the same in words, whether it may be repaired)
RULES = (
    ("M2.2: a line ends in CR LF", MAY, "a lone LF may end a line of a head (M2.2)", False),
    ("M2.2: no CR stands alone", MUST, "a CR alone is refused, or becomes a space (M2.2)", True),
    ("M2.2, ours", MAY, "empty lines before a request are skipped (M2.2)", False),
    ("M2.3", SHOULD, "a version is HTTP/1 and a digit (M2.3)", False),
    ("M3.2, S7.2", MUST, "an invalid Host is 400 (M3.2)", False),
    ("M3.2: a request has one Host", MUST, "no Host, or more than one, is 400 (M3.2)", False),
    ("M3.2: Host is a host", MUST, "an invalid Host is 400 (M3.2)", False),
    ("M3.2: no white space", SHOULD, "a target has no white space, control, #, nothing beyond ASCII (M3.2)", False),
    ("M3.2.4", SHOULD, "* is for OPTIONS (M3.2.4)", False),
    ("M3.2: the target", SHOULD, "a target has one of four forms (M3.2)", False),
    ("M3: the target is too long", OURS, "bounds", False),
    ("M3: a request line", MAY, "a request line may be parted at any white space (M3)", False),
    ("M3, M4", SHOULD, "a start line starts with a token and holds no control (M3)", False),
    ("M5.1: no white space", MUST, "white space before a colon is 400 (M5.1)", False),
    ("M5, S5.6.2", SHOULD, "a field has a token for a name, and a colon (M5)", False),
    ("M5.2", MUST, "a folded line is 400, or unfolded (M5.2)", True),
    ("S5.5: no CR", MUST, "CR, LF and NUL in a value are refused, or become spaces (S5.5)", True),
    ("S5.5, ours", MAY, "other controls may stay in a value (S5.5)", False),
    ("S5.4", OURS, "bounds", False),
    ("M6.1: HTTP/1.0", MUST, "Transfer-Encoding in HTTP/1.0 is faulty, the connection is closed (M6.1)", False),
    ("M6.1: Content-Length stands beside", MUST,
     "of Content-Length and Transfer-Encoding the former goes, and the connection is closed (M6.1)", True),
    ("M6.1, M6.3, M7.1", MUST, "codings that do not end in chunked, or name it twice, are 400 (M6.3)", False),
    ("S8.6: Content-Length stands there twice", MUST, "lengths that differ are 400 (M6.3)", False),
    ("S8.6, M6.3", MUST, "a Content-Length that is no number is 400 (M6.3)", False),
    ("S7.6.1: Connection", SHOULD, "Connection is a list of tokens (S7.6.1)", False),
    ("S7.6.1, ours", OURS, "what Connection may name", False),
    ("S9.1, ours", OURS, "methods of 32 bytes, no CONNECT", False),
    ("S10.1.1", MAY, "an unknown expectation may be ignored (S10.1.1)", False),
    ("ours", OURS, "stricter than asked", False),
)
IN_A_BODY = SHOULD, "chunks are as their grammar has them, also their line ends (M7.1)", False


def of(words, is_in_body):
    """(what is asked, in words, whether it may be repaired) where the strict reader said @words."""
    if is_in_body:
        return (OURS, "bounds", False) if "too l" in words else IN_A_BODY
    for start, *rule in RULES:
        if words.startswith(start):
            return tuple(rule)
    raise KeyError(words)
