"""Whether sluice and those on both sides of it can ever disagree about where a message ends.

Bytes go through the built program over sockets: random and mutated requests to it, random and mutated
answers back. What comes out on the other side is read by `strict`, a reader of HTTP/1.1 that was
written from the RFCs alone, and compared with what the same reader makes of what went in.

    python3 -m desync [--seconds N] [--seed S]        (PYTHONPATH=tests/e2e, SLUICE=the program)
"""
