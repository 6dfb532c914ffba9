"""Limits by area: cells of geohash."""

import os
import random
import subprocess

import pytest

from harness.program import command

CELLS = os.environ.get("GEOHASH_CELLS", "")
N_POINTS = 100_000
ORACLE = """
use Geo::Hash;
my $hash = Geo::Hash->new;
while (<STDIN>) {
  my ($latitude, $longitude, $n) = split;
  print $hash->encode($latitude, $longitude, $n), "\\n";
}
"""
ALPHABET = "0123456789bcdefghjkmnpqrstuvwxyz"


def run(program, points):
    lines = "".join(f"{latitude} {longitude} {n}\n" for latitude, longitude, n in points)
    return subprocess.run(program, input=lines, capture_output=True, text=True, check=True,
                          timeout=300).stdout.split()


def degrees(chance, limit):
    """Of any number of decimals up to 12; some at the ends."""
    if chance.random() < 0.02:
        return chance.choice([str(limit), str(-limit), "0", "-0", f"{limit - 1e-7:.7f}", f"{1e-7 - limit:.7f}"])
    return f"{chance.uniform(-limit, limit):.{chance.randint(0, 12)}f}"


def border(chance, limit, bits):
    """A border of cells, which a double represents, in all of its decimals."""
    return f"{chance.randint(0, 2 ** bits) * 2 * limit / 2 ** bits - limit:.25f}"


def test_cells_are_those_of_another_implementation(seed):
    chance = random.Random(seed)
    points = [(degrees(chance, 90), degrees(chance, 180), chance.randint(1, 9)) for _ in range(N_POINTS)]
    for _ in range(N_POINTS // 10):
        n = chance.randint(1, 9)
        points.append((border(chance, 90, 5 * n // 2), border(chance, 180, (5 * n + 1) // 2), n))
    for latitude in ("90", "-90", "0"):
        for longitude in ("180", "-180", "0", "179.9999999", "-179.9999999"):
            points += [(latitude, longitude, n) for n in range(1, 10)]
    found = run([CELLS], points)
    wanted = run(["/usr/bin/perl", "-e", ORACLE], points)
    assert len(found) == len(points)
    assert [trio for trio in zip(points, found, wanted) if trio[1] != trio[2]] == []


def test_cells_are_those_of_redis(seed, start_redis):
    """Redis knows latitudes up to 85 degrees, to half a metre: the points are in the middle of cells."""
    chance = random.Random(seed)
    redis = start_redis()
    points = []
    while len(points) < 1000:
        row, column = chance.randrange(2 ** 22), chance.randrange(2 ** 23)
        latitude = (row + 0.5) * 180 / 2 ** 22 - 90
        if abs(latitude) < 85:
            points.append((f"{latitude:.12f}", f"{(column + 0.5) * 360 / 2 ** 23 - 180:.12f}", 9))
    for i, (latitude, longitude, _) in enumerate(points):
        redis.call("GEOADD", "points", longitude, latitude, str(i))
    wanted = redis.call("GEOHASH", "points", *[str(i) for i in range(len(points))])
    redis.call("DEL", "points")
    wanted = [cell.decode() if isinstance(cell, bytes) else cell for cell in wanted]
    assert run([CELLS], points) == [cell[:9] for cell in wanted]


POLICY = """
limits:
  area: {key: geohash(query.lat query.lon 5), rate: 2/day}
  place: {key: geohash(header.x-lat header.x-lon 9), rate: 2/day, missing: deny}
  each: {key: geohash(query.lat query.lon 5), rate: 2/day, duplicates: each}
  either: {key: geohash(query.lat query.lon 5) | client.ip, rate: 2/day}
routes:
  - {match: {path: /area}, limits: [area], respond: {status: 204}}
  - {match: {path: /place}, limits: [place], respond: {status: 204}}
  - {match: {path: /each}, limits: [each], respond: {status: 204}}
  - {match: {path: /either}, limits: [either], respond: {status: 204}}
"""


@pytest.fixture(name="proxy")
def a_proxy(start_in_store):
    return start_in_store(POLICY)


def statuses(proxy, *paths, fields=()):
    return [proxy.ask(path=path, fields=fields).status for path in paths]


def test_each_area_has_its_limit(proxy):
    assert statuses(proxy, "/area?lat=52.5200&lon=13.405", "/area?lon=%2B13.4049&lat=52.52009",
                    "/area?lat=052.52&lon=13.405") == [204, 204, 429]
    assert statuses(proxy, "/area?lat=48.8584&lon=2.2945", "/area?lat=-52.52&lon=13.405") == [204, 204]
    # The date line and the poles.
    assert statuses(proxy, "/area?lat=0&lon=180", "/area?lat=0&lon=179.99999", "/area?lat=0&lon=180.0") == \
        [204, 204, 429]
    assert statuses(proxy, "/area?lat=0&lon=-180", "/area?lat=90&lon=0", "/area?lat=-90&lon=0") == [204] * 3


def test_what_is_no_position_is_missing(proxy):
    assert statuses(proxy, "/area", "/area?lat=52.52", "/area?lat=91&lon=0", "/area?lat=1e1&lon=0") == \
        [204, 204, 429, 429]
    assert statuses(proxy, "/either", "/either?lat=52.52&lon=x", "/either?lon=2") == [204, 204, 429]
    assert statuses(proxy, "/place", fields={"X-Lat": "north", "X-Lon": "1"}) == [403]
    assert statuses(proxy, "/place", "/place", "/place", fields={"X-Lat": "-0", "X-Lon": "1"}) == [204, 204, 429]


def test_a_coordinate_that_comes_twice(proxy):
    assert statuses(proxy, "/area?lat=1&lat=2&lon=1", "/area?lat=1&lon=1&lat=1") == [400, 204]
    assert statuses(proxy, "/each?lat=1&lat=2&lon=1", "/each?lat=1&lon=1", "/each?lat=1&lon=1",
                    "/each?lat=2&lat=3&lon=1", "/each?lat=2&lat=1&lon=1") == [204, 204, 429, 204, 429]


def test_a_field_of_a_position_is_one_that_the_policy_reads(proxy):
    assert statuses(proxy, "/place", fields={"X_Lat": "1", "X-Lon": "1"}) == [400]


def test_explain_and_check_know_it(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text("listen: 127.0.0.1:0\n" + POLICY)
    shown = command("explain", str(path), "GET", "http://a.test/area?lat=52.52&lon=13.405").stdout
    assert "geohash#" in shown
    warnings = command("check", str(path)).stderr
    assert 'with another one in each request a client always has the whole quota of limit "area"' in warnings
    path.write_text("listen: 127.0.0.1:0\n" + POLICY.replace("query.lon 5", "query.lon 12"))
    assert "geohash ends with the characters of a cell, 1 to 9" in command("check", str(path)).stderr


def test_a_log_without_the_query_does_not_judge_areas(tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("listen: 127.0.0.1:0\n" + POLICY)
    log = tmp_path / "log"
    line = '192.0.2.1 - - [28/Nov/2026:10:00:0{} +0000] "GET {} HTTP/1.1" 200 5 "-" "-"\n'
    log.write_text("".join(line.format(i, "/area?lat=1&lon=1") for i in range(4)))
    result = command("replay", str(policy), str(log))
    assert result.returncode == 0, result.stderr
    assert 'limit "place" is not judged' in result.stdout + result.stderr
    assert 'limit "area" is not judged' not in result.stdout + result.stderr
