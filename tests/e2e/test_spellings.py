"""No spelling of a limited request leads around its limit: requests whose limits are exhausted, written in thousands of
ways, before a server that reads as Flask, Django, Go, Express, Node and PHP do. tests/servers has the spellings, the
imitations and the table of what is left; scripts/test-long runs them against the real servers."""

import functools
import pathlib
import subprocess
import sys

import pytest

SERVERS = pathlib.Path(__file__).resolve().parents[1] / "servers"
sys.path.insert(0, str(SERVERS))

import asking  # noqa: E402
import imitation  # noqa: E402
import limited  # noqa: E402
import reading  # noqa: E402
import spellings  # noqa: E402
import table  # noqa: E402

N = 6000
SEED = 1
SHOWN = 10


@functools.cache
def all_spellings():
    return list(spellings.all_of(N, SEED))


@pytest.fixture(name="server")
def imitating_server():
    with imitation.Server() as server:
        yield server


@pytest.fixture(name="start_exhausted", params=["plain", "careful", "closed", "lenient"])
def start_with_exhausted_limits(request, start, server):
    """(address, whether the policy is the careful one) of a proxy in which all limited requests are denied."""
    is_careful = request.param in ("careful", "lenient")
    policy = limited.policy(server.url, is_careful=is_careful, is_closed=request.param == "closed",
                            is_lenient=request.param == "lenient")
    address = start(policy).address
    asking.ask_all(address, [one.raw() for one in limited.priming()], 1)
    denied = asking.ask_all(address, [one.plain().raw() for one in limited.LIMITED], 1)
    assert {response.status for response in denied} == {429}
    return address, is_careful


def ways_through(many, responses, is_careful):
    """(server, request) of each that is not among what is left."""
    left = table.left()
    for spelling, response in zip(many, responses):
        for server, read in (response.readings() or {}).items():
            if limited.LIMITED[spelling.number].is_reached_by(read) and not table.find_left(
                    left, server, is_careful, spelling):
                yield server, spelling.rules, spelling.raw()


def test_no_spelling_leads_around_a_limit(start_exhausted):
    address, is_careful = start_exhausted
    many = all_spellings()
    responses = asking.ask_all(address, [spelling.raw() for spelling in many])
    assert not list(ways_through(many, responses, is_careful))[:SHOWN]
    n_passed = sum(response.readings() is not None for response in responses)
    assert n_passed > N // 25, "a test that sends nothing on shows nothing"


@pytest.mark.parametrize("start_exhausted", ["plain", "careful"], indirect=True)
def test_the_table_says_what_becomes_of_each_spelling(start_exhausted):
    address, is_careful = start_exhausted
    responses = asking.ask_all(address, [table.raw(row) for row in table.rows()], 1)
    for server in reading.ALL:
        seen = []
        for row, response in zip(table.rows(), responses):
            readings = response.readings() or {}
            seen.append((response.status, table.limited_of(row).is_reached_by(readings.get(server))))
        assert not list(table.faults_of_sluice(server, is_careful, seen)), server


def test_the_table_says_which_servers_take_a_spelling_for_the_same(server):
    responses = asking.ask_all(server.server_address, [table.raw(row) for row in table.rows()], 1)
    for name in reading.ALL:
        assert not list(table.faults_of_server(name, [one.readings()[name] for one in responses])), name


def test_spellings_are_many_and_always_the_same():
    many = all_spellings()
    other = subprocess.run(  # a process has a hash of its own, and with it an order of what is in a set
        [sys.executable, "-B", "-c", f"import spellings; [print(repr(one)) for one in spellings.all_of({N}, {SEED})]"],
        cwd=SERVERS, capture_output=True, text=True, check=True)
    pairs = list(zip(map(repr, many), other.stdout.splitlines()))
    assert [pair for pair in pairs if pair[0] != pair[1]][:SHOWN] == [] and len(pairs) == N
    assert len({spelling.raw() for spelling in many}) == N == len(many)
    assert many != list(spellings.all_of(N, SEED + 1))
    alone = {spelling.rules[0] for spelling in many if len(spelling.rules) == 1}
    assert len(alone) > 30, sorted(alone)
    assert any(len(spelling.rules) > 1 for spelling in many)
