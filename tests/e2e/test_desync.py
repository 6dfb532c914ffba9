"""Nothing that a client or an upstream sends lets the two disagree about where a message ends."""

import pathlib

import pytest

from desync import vectors
from desync.case import from_seed, shown
from desync.planted import FAULTS, Planted
from desync.session import Session, known_cases

N_CASES = 2000
FIRST_SEED = 1_000_000
REGRESSION = pathlib.Path(__file__).parent / "desync" / "regression"


@pytest.fixture(name="begin")
def sessions(tmp_path):
    begun = []

    def begin(**how):
        begun.append(Session(tmp_path / f"session-{len(begun)}", **how))
        return begun[-1]

    yield begin
    for session in begun:
        session.close()


def tell(case, findings):
    return f"{case}\n" + "\n".join(findings)


def test_what_was_found_once_stays_mended(begin):
    session = begin()
    for path, case in known_cases(REGRESSION).items():
        findings = session.findings_of(case)
        assert not findings, f"{path.name}: {tell(case, findings)}"


def test_requests_that_servers_read_differently_are_refused_or_read_once(begin):
    session = begin()
    wrong, n = [], 0
    for n, vector in enumerate(vectors.table(), 1):
        words, findings = vectors.run(session, vector)
        if words != vector.wanted or findings:
            wrong.append(f"vectors.txt:{vector.line}: {shown(vector.data)} became {words} {findings}")
    assert not wrong, "\n".join(wrong)
    assert n > 400


def test_upstream_and_client_see_the_messages_that_were_sent(begin):
    found = begin().first_finding(range(FIRST_SEED, FIRST_SEED + N_CASES),
                                  [vector.data for vector in vectors.table()])
    assert not found, tell(*found)


def test_the_log_tells_of_every_answer_and_of_no_other(begin):
    session = begin()
    n = 0
    for seed in range(1000):
        case = from_seed(seed)
        if hasattr(case, "pieces"):
            session.findings_of(case)
            n += 1
    assert n > 500
    session.check_log()


def test_a_proxy_without_a_fault_is_not_found_out(begin):
    found = begin(start=Planted).first_finding(range(1000))
    assert not found, tell(*found)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_proxy_with_a_known_fault_is_found_out(begin, fault):
    assert begin(start=FAULTS[fault]).first_finding(range(20_000)), "nothing is found"
