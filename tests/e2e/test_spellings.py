"""Spellings of limited requests, and a server that reads them as Flask, Django, Go, Express, Node and PHP do.
tests/servers has both; scripts/test-long runs them against the real servers."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "servers"))

import asking  # noqa: E402
import imitation  # noqa: E402
import reading  # noqa: E402
import spellings  # noqa: E402
import table  # noqa: E402

N = 6000
SEED = 1


@pytest.fixture(name="server")
def imitating_server():
    with imitation.Server() as server:
        yield server


def test_the_table_says_which_servers_take_a_spelling_for_the_same(server):
    responses = asking.ask_all(server.server_address, [table.raw(row) for row in table.rows()], 1)
    for name in reading.ALL:
        assert not list(table.faults_of_server(name, [one.readings()[name] for one in responses])), name


def test_spellings_are_many_and_always_the_same():
    many = list(spellings.all_of(N, SEED))
    assert len({spelling.raw() for spelling in many}) == N == len(many)
    assert many == list(spellings.all_of(N, SEED))
    assert many != list(spellings.all_of(N, SEED + 1))
    alone = {spelling.rules[0] for spelling in many if len(spelling.rules) == 1}
    assert len(alone) > 30, sorted(alone)
    assert any(len(spelling.rules) > 1 for spelling in many)
