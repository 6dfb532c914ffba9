"""A case: what a client sends, or what an upstream answers; drawn from a seed, or kept in a file."""

import json
import random
import re
from dataclasses import asdict, dataclass, replace

from desync import answers, grammar, judge
from desync.lane import plain_answer


LONG_RUN = re.compile(rb"(.)\1{39,}", re.DOTALL)


def shown(data):
    """`data` for people: runs of one byte are told by their length."""
    return repr(LONG_RUN.sub(lambda run: b"<%d times %s>" % (len(run[0]), run[1]), data))


@dataclass(frozen=True)
class Requests:
    """A client sends these pieces; every request that reaches the upstream is answered well."""
    pieces: tuple

    def run(self, lane, address):
        """What is wrong, and the statuses that the client was told."""
        lane.answer = plain_answer
        return judge.judge_requests(b"".join(self.pieces), lane.run(address, self.pieces))

    def smaller(self):
        """The same with something left out, the most first."""
        data = b"".join(self.pieces)
        if len(self.pieces) > 1:
            yield Requests((data,))
        n = len(data) // 2
        while n > 0:
            for at in range(0, len(data), n):
                yield Requests((data[:at] + data[at + n:],))
            n //= 2

    def as_json(self):
        return {"pieces": [piece.decode("latin-1") for piece in self.pieces]}

    def __str__(self):
        return "a client sends " + ", then ".join(map(shown, self.pieces))


@dataclass(frozen=True)
class Answers:
    """An upstream answers a client's pipeline so."""
    scripts: tuple

    def run(self, lane, address):
        lane.answer = answers.answerer(self.scripts)
        observation = lane.run(address, [answers.requests_of(self.scripts)])
        return answers.judge(self.scripts, observation)

    def smaller(self):
        for i, one in enumerate(self.scripts):
            if len(self.scripts) > 1:
                yield Answers(self.scripts[:i] + self.scripts[i + 1:])
            n = len(one.data) // 2
            while n > 0:
                for at in range(0, len(one.data), n):
                    less = answers.ended(replace(one, data=one.data[:at] + one.data[at + n:]))
                    yield Answers(self.scripts[:i] + (less,) + self.scripts[i + 1:])
                n //= 2

    def as_json(self):
        return {"scripts": [{**asdict(one), "data": one.data.decode("latin-1"),
                             "method": one.method.decode()} for one in self.scripts]}

    def __str__(self):
        return "an upstream answers " + ", then ".join(
            f"{one.method.decode()} in HTTP/1.{one.minor} with {shown(one.data)}, {one.end}"
            for one in self.scripts)


def from_seed(seed, starts=()):
    """`starts`: what clients sent once, to begin with now and then."""
    rng = random.Random(seed)
    if rng.random() < .3:
        return Answers(tuple(answers.script(rng) for _ in range(rng.choice([1, 2, 3]))))
    return Requests(tuple(grammar.pieces(rng, grammar.pipeline(rng, starts))))


def from_file(path):
    kept = json.loads(path.read_text())
    if "pieces" in kept:
        return Requests(tuple(piece.encode("latin-1") for piece in kept["pieces"]))
    return Answers(tuple(answers.Script(**{**one, "data": one["data"].encode("latin-1"),
                                           "method": one["method"].encode()})
                         for one in kept["scripts"]))


def reduced(case, is_found, tries_max=2000):
    """The smallest case, of those that were tried, in which something is still found."""
    n_tries, goes_on = 0, True
    while goes_on:
        goes_on = False
        for smaller in case.smaller():
            n_tries += 1
            if n_tries > tries_max:
                return case
            if is_found(smaller):
                case, goes_on = smaller, True
                break
    return case
