"""Every algorithm through the program, in both stores: what passes, and what clients are told."""

import re
import time

import pytest

from harness.wait import rest_of_window, until

ALGORITHMS = {
    "token": "algorithm: token_bucket",
    "leaky": "algorithm: leaky_bucket",
    "gcra": "algorithm: gcra",
    "clock": "algorithm: fixed_window",
    "first": "algorithm: fixed_window, align: first",
    "sliding": "algorithm: sliding_window",
    "strict": "algorithm: sliding_window, buckets: 4, strict: true",
    "log": "algorithm: sliding_log",
}

ANSWER = "respond: {status: 204}"


def one_route_each(rate):
    """A policy with each algorithm at a path of its own name."""
    limits = "\n".join(f"  {name}: {{key: client.ip, {words}, rate: {rate}}}"
                       for name, words in ALGORITHMS.items())
    routes = "\n".join(f"  - {{match: {{path: /{name}}}, limits: [{name}], {ANSWER}}}"
                       for name in ALGORITHMS)
    return f"limits:\n{limits}\nroutes:\n{routes}\n"


def parameter(answer, name, letter):
    """The parameter `letter` of the limit's member of the RateLimit field, as a number, or None."""
    found = re.search(rf'"{re.escape(name)}"((?:;\w+=\d+)*)', answer.get("RateLimit"))
    return {key: int(value) for key, value in re.findall(r";(\w+)=(\d+)", found[1])}.get(letter)


def left(answer):
    """What is left of each limit."""
    return {name: int(r) for name, r in re.findall(r'"([^"]+)";r=(\d+)', answer.get("RateLimit"))}


# --- one at a time ---


def waits_for_one_more(rate, period):
    """For each algorithm the seconds until there is one more unit, after the first and when all
    are taken, all at one instant: now."""
    now = time.time()
    part = period / 10
    ten = now // part * part + period - now  # until the first of ten parts begins to leave
    quarter = now // (period / 4) * (period / 4) + period * 5 / 4 - now
    return {
        "token": (period / rate, period / rate),
        "leaky": (period / rate, period / rate),
        "gcra": (period / rate, period / rate),
        "clock": (period - now % period, period - now % period),
        "first": (period, period),
        "sliding": (ten + part, ten + part / rate),
        "strict": (quarter, quarter),
        "log": (period, period),
    }


def test_each_algorithm_admits_its_rate_and_tells_how_long_the_next_has_to_wait(start_in_store):
    proxy = start_in_store(one_route_each("3/day"))
    rest_of_window(86400 / 20, at_least_s=20)
    waits = waits_for_one_more(3, 86400)
    for name in ALGORITHMS:
        answers = [proxy.ask(path=f"/{name}") for _ in range(4)]
        denied = answers[-1]
        first_s, last_s = waits[name]
        assert [answer.status for answer in answers] == [204, 204, 204, 429], name
        assert [left(answer)[name] for answer in answers] == [2, 1, 0, 0], name
        assert {answer.get("RateLimit-Policy") for answer in answers} == {f'"{name}";q=3;w=86400'}
        assert first_s - 20 < parameter(answers[0], name, "t") <= first_s + 1, name
        assert last_s - 20 < int(denied.get("Retry-After")) <= last_s + 1, name
        assert int(denied.get("Retry-After")) == parameter(denied, name, "t"), name
        assert denied.json()["violated-policies"] == [name]
        assert denied.json()["retry-after"] == int(denied.get("Retry-After"))


def ask_for_a_denial(proxy, name):
    """None where it is let in: the edge of a window lay before it, or a machine that stalled."""
    answer = proxy.ask(path=f"/{name}")
    return answer if answer.status == 429 else None


def test_who_comes_back_after_retry_after_is_let_in_by_each_algorithm(start_in_store):
    proxy = start_in_store(one_route_each("1/2s"))
    waiting = {}
    for name in ALGORITHMS:
        assert proxy.ask(path=f"/{name}").status == 204, name
        denied = until(lambda name=name: ask_for_a_denial(proxy, name), f"a denial by {name}")
        waiting[name] = time.monotonic() + int(denied.get("Retry-After"))
        assert 1 <= int(denied.get("Retry-After")) <= 4
    for name, comes_back in sorted(waiting.items(), key=lambda item: item[1]):
        time.sleep(max(0, comes_back - time.monotonic()))
        assert proxy.ask(path=f"/{name}").status == 204, name


def test_a_burst_is_what_passes_at_once_where_there_is_one(start_in_store):
    proxy = start_in_store("""
        limits:
          token: {key: client.ip, algorithm: token_bucket, rate: 100/day, burst: 2}
          leaky: {key: client.ip, algorithm: leaky_bucket, rate: 100/day, burst: 2}
          gcra: {key: client.ip, algorithm: gcra, rate: 100/day, burst: 2}
        routes:
          - {match: {path: /token}, limits: [token], respond: {status: 204}}
          - {match: {path: /leaky}, limits: [leaky], respond: {status: 204}}
          - {match: {path: /gcra}, limits: [gcra], respond: {status: 204}}
    """)
    for name in ("token", "leaky", "gcra"):
        answers = [proxy.ask(path=f"/{name}") for _ in range(3)]
        assert [answer.status for answer in answers] == [204, 204, 429]
        assert answers[0].get("RateLimit-Policy") == f'"{name}";q=100;w=86400'
        assert left(answers[0]) == {name: 1}
        assert 854 <= int(answers[2].get("Retry-After")) <= 864


# --- several on one request ---

MIXED = """
    limits:
      token: {key: client.ip, algorithm: token_bucket, rate: 20/day}
      leaky: {key: client.ip, algorithm: leaky_bucket, rate: 19/day}
      gcra: {key: client.ip, algorithm: gcra, rate: 18/day}
      window: {key: client.ip, algorithm: fixed_window, rate: 17/day}
      sliding: {key: client.ip, algorithm: sliding_window, rate: 16/day}
      log: {key: client.ip, algorithm: sliding_log, rate: 15/day}
      slots: {key: client.ip, algorithm: concurrency, rate: 14}
      narrow: {key: client.ip, algorithm: sliding_log, rate: 2/day}
      tight: {key: client.ip, algorithm: gcra, rate: 2/day}
    routes:
      - {match: {path: /wide}, respond: {status: 204},
         limits: [token, leaky, gcra, window, sliding, log, slots]}
      - {match: {path: /all}, respond: {status: 204},
         limits: [token, narrow, leaky, gcra, tight, window, sliding, log, slots]}
"""
WIDE = {"token": 20, "leaky": 19, "gcra": 18, "window": 17, "sliding": 16, "log": 15}


def without_slots(answer):
    return {name: n for name, n in left(answer).items() if name != "slots"}


def test_a_mix_of_all_algorithms_is_charged_together_or_not_at_all(start_in_store):
    proxy = start_in_store(MIXED)
    rest_of_window(86400 / 10, at_least_s=10)
    admitted = [proxy.ask(path="/all") for _ in range(2)]
    assert [answer.status for answer in admitted] == [204, 204]
    assert without_slots(admitted[1]) == {**{name: n - 2 for name, n in WIDE.items()},
                                          "narrow": 0, "tight": 0}
    for _ in range(5):
        denied = proxy.ask(path="/all")
        assert denied.status == 429
        assert denied.json()["violated-policies"] == ["narrow", "tight"]
        assert 86400 - 10 <= int(denied.get("Retry-After")) <= 86400, "the longer of the two"
        assert without_slots(denied) == without_slots(admitted[1])
        assert left(denied)["slots"] >= 12
    assert without_slots(proxy.ask(path="/wide")) == {name: n - 3 for name, n in WIDE.items()}


@pytest.mark.parametrize("words", ALGORITHMS.values(), ids=ALGORITHMS.keys())
def test_several_rates_of_a_limit_are_judged_together_and_named_apart(start_in_store, words):
    proxy = start_in_store(f"""
        limits: {{api: {{key: client.ip, {words}, rate: [2/hour, 5/day]}}}}
        routes: [{{limits: [api], respond: {{status: 204}}}}]
    """)
    rest_of_window(360, at_least_s=10)
    answers = [proxy.ask() for _ in range(4)]
    assert [answer.status for answer in answers] == [204, 204, 429, 429]
    assert answers[0].get("RateLimit-Policy") == '"api.1h";q=2;w=3600, "api.1d";q=5;w=86400'
    assert left(answers[3]) == {"api.1h": 0, "api.1d": 3}
    assert answers[3].json()["violated-policies"] == ["api.1h"]


# --- attempts that count ---


@pytest.mark.parametrize("words", ALGORITHMS.values(), ids=ALGORITHMS.keys())
def test_denied_requests_count_where_the_limit_says_so_and_until_it_is_full(start_in_store, words):
    proxy = start_in_store(f"""
        limits:
          attempts: {{key: client.ip, {words}, rate: 3/day, charge_denied: true}}
          plain: {{key: client.ip, {words}, rate: 9/day}}
          narrow: {{key: client.ip, {words}, rate: 1/day}}
        routes: [{{limits: [attempts, plain, narrow], respond: {{status: 204}}}}]
    """)
    rest_of_window(86400 / 20, at_least_s=10)
    answers = [proxy.ask() for _ in range(6)]
    assert [answer.status for answer in answers] == [204] + [429] * 5
    assert [left(answer)["attempts"] for answer in answers] == [2, 1, 0, 0, 0, 0]
    assert {left(answer)["plain"] for answer in answers} == {8}
    named = [answer.json()["violated-policies"] for answer in answers[1:]]
    assert named == [["narrow"], ["narrow"]] + [["attempts", "narrow"]] * 3


def test_who_goes_on_in_spite_of_a_denial_stays_denied_where_attempts_count(start_in_store):
    proxy = start_in_store("""
        limits:
          strict: {key: client.ip, rate: 1/s, charge_denied: true}
          lenient: {key: client.ip, rate: 1/s}
        routes:
          - {match: {path: /strict}, limits: [strict], respond: {status: 204}}
          - {match: {path: /lenient}, limits: [lenient], respond: {status: 204}}
    """)
    n_lenient, n_denied = 0, 0
    tried_at = None
    with proxy.connect() as client:
        while n_lenient < 3:
            asked_at = time.monotonic()
            if client.ask(path="/strict").status == 429:
                n_denied += 1
            elif tried_at is not None:  # a machine that stalled: nobody had tried for so long
                assert time.monotonic() - tried_at >= 1
            tried_at = asked_at
            n_lenient += client.ask(path="/lenient").status == 204
    assert n_denied > 0


def test_the_wait_counts_from_the_last_attempt_where_attempts_count(start_in_store):
    proxy = start_in_store("""
        limits: {attempts: {key: client.ip, rate: 2/day, charge_denied: true}}
        routes:
          - {match: {path: /one}, limits: [attempts], respond: {status: 204}}
          - {match: {path: /two}, limits: [attempts], cost: 2, respond: {status: 204}}
    """)
    assert proxy.ask(path="/one").status == 204
    denied = proxy.ask(path="/two")
    assert denied.status == 429
    assert int(denied.get("Retry-After")) == 86400, "not the half that was lacking before it"
    assert parameter(denied, "attempts", "t") == 43200


# --- shadows ---


def test_a_shadow_is_told_in_the_log_and_nowhere_else(start_in_store):
    proxy = start_in_store("""
        limits:
          real: {key: client.ip, rate: 5/day}
          idea: {key: client.ip, algorithm: sliding_log, rate: 2/day, shadow: true}
          other: {key: client.ip, algorithm: fixed_window, rate: 3/day, shadow: true}
        routes: [{limits: [idea, real, other], respond: {status: 204}}]
    """)
    answers = [proxy.ask() for _ in range(6)]
    assert [answer.status for answer in answers] == [204] * 5 + [429]
    for answer in answers:
        assert answer.get("RateLimit-Policy") == '"real";q=5;w=86400'
        assert list(left(answer)) == ["real"]
    assert answers[5].json()["violated-policies"] == ["real"]
    lines = proxy.lines_of("/", 6)
    by_status = sorted((line["status"], line.get("shadow", "")) for line in lines)
    assert by_status == [("204", "")] * 2 + [("204", "idea")] + [("204", "idea,other")] * 2 + [
        ("429", "idea,other")]
    assert {line.get("limit") for line in lines} == {None, "real"}


def test_a_shadow_alone_tells_clients_nothing_and_refuses_nobody(start_in_store):
    proxy = start_in_store("""
        limits:
          idea: {key: header.x-id, rate: 1/day, shadow: true, missing: deny}
          slots: {key: header.x-id, algorithm: concurrency, rate: 1, shadow: true}
          slow: {key: header.x-id, algorithm: leaky_bucket, rate: 1/h, max_wait: 1h, shadow: true}
        routes: [{limits: [idea, slots, slow], respond: {status: 204}}]
    """)
    for fields in ((), {"X-Id": "a"}, {"X-Id": "a"}, {"X-Id": "a"}):
        started = time.monotonic()
        answer = proxy.ask(fields=fields)
        assert answer.status == 204 and time.monotonic() - started < 30
        assert answer.get("RateLimit") is None and answer.get("RateLimit-Policy") is None
    lines = proxy.lines_of("/", 4)
    assert sorted(line.get("shadow", "") for line in lines).count("") == 2
    assert not any("held_us" in line for line in lines)


def test_a_shadow_takes_nothing_of_a_request_that_is_denied(start_in_store):
    proxy = start_in_store("""
        limits:
          real: {key: client.ip, rate: 1/day}
          idea: {key: client.ip, rate: 2/day, shadow: true}
        routes:
          - {match: {path: /both}, limits: [real, idea], respond: {status: 204}}
          - {match: {path: /idea}, limits: [idea], respond: {status: 204}}
    """)
    assert [proxy.ask(path="/both").status for _ in range(5)] == [204] + [429] * 4
    assert [proxy.ask(path="/idea").status for _ in range(2)] == [204, 204]
    lines = proxy.lines_of("/idea", 2)
    assert sorted(line.get("shadow", "") for line in lines) == ["", "idea"]
