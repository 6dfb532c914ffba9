"""Spellings of the limited requests: every rule of RFC 3986 and of the formats of fields, cookies and
forms by which a server could read a request that is written in another way as the same. Each alone, then
two at a time. The same seed makes the same spellings."""

import random

from limited import LIMITED
from path_rules import PATH_RULES
from field_rules import FIELD_RULES, rules_of

N = 20000
SINGLE_SHARE = 0.6  # of the spellings of a request, at most


def _rules(limited):
    """Two lists of (name, rule): those of its kind, and those of every request."""
    return rules_of(limited.kind), [*PATH_RULES, *FIELD_RULES]


def _shares(groups, rng, most):
    """At most so many of all groups: those that have few give what they do not need to the others."""
    for group in groups:
        rng.shuffle(group)
    left = most
    for i, group in enumerate(sorted(groups, key=len)):
        taken = group[:left // (len(groups) - i)]
        left -= len(taken)
        yield from taken


def _singles(limited, rng, most):
    """Two thirds of them by the rules of the request's kind, where it has any."""
    plain = limited.plain()
    own, common = ([list(rule(plain, name)) for name, rule in rules] for rules in _rules(limited))
    found = list(_shares(own, rng, most * 2 // 3))
    return found + list(_shares(common, rng, most - len(found)))


def _pair(limited, rng):
    own, common = _rules(limited)
    spelling = limited.plain()
    for _ in range(2):
        name, rule = rng.choice(own if own and rng.random() < 0.7 else common)
        group = list(rule(spelling, name))
        if group:
            spelling = rng.choice(group)
    return spelling


def of(limited, n, seed):
    """n different spellings of one limited request."""
    rng = random.Random(f"{seed}/{limited.number}")
    found = {}
    for spelling in _singles(limited, rng, int(n * SINGLE_SHARE)):
        found.setdefault(spelling.raw(), spelling)
    while len(found) < n:
        spelling = _pair(limited, rng)
        found.setdefault(spelling.raw(), spelling)
    return list(found.values())


def all_of(n=N, seed=1):
    """n in all, as many of each request."""
    each, more = divmod(n, len(LIMITED))
    for limited in LIMITED:
        yield from of(limited, each + (limited.number < more), seed)
