"""From the latencies of all rounds to one table: what a proxy adds to a direct connection."""

from statistics import median, quantiles

QUANTILES = ["p50", "p99", "p999"]
REDIS_SLACK_US = 200  # over a round trip
REDIS_ROWS = ["sluice-redis", "sluice-redis-cold"]
# A round trip has two readings, and a bound each. Its p99 is what the same machine does to a message as short as any,
# and allows more the noisier that is; its median is as if nothing ever held one up.
TRIPS = {"p99": "p99 added, beyond the p99 of a round trip of Redis, µs",
         "p50": "p99 added, beyond the median of a round trip of Redis, µs"}
BUSY_US = 100  # that the generator is late by itself: it did not get a processor when it wanted one


def _added(one, rate, name, quantile):
    """Within a round, where both sides met the same machine."""
    loads = one["loads"][str(rate)]
    return loads[name]["latency_us"][quantile] - loads["direct"]["latency_us"][quantile]


def middle_half(figures):
    """Between which the middle half of them lies: one stall of the machine does not move it, as it does the extremes."""
    if len(figures) < 2:
        return figures[0], figures[0]
    low, _, high = quantiles(figures, n=4, method="inclusive")
    return low, high


def _loads(name, rate, rounds):
    return [one["loads"][str(rate)][name] for one in rounds]


def _n_saturated(name, rate, rounds):
    return sum(load["saturated"] for load in _loads(name, rate, rounds))


def _is_borne(rate, rounds, *names):
    """By all of @names, in the half of the rounds at least."""
    return all(2 * _n_saturated(name, rate, rounds) <= len(rounds) for name in names)


def _row(row, rate, rounds):
    loads, n_saturated = _loads(row.name, rate, rounds), _n_saturated(row.name, rate, rounds)
    line = {"name": row.name, "title": row.title, "rate": rate, "n_rounds": len(loads), "n_saturated": n_saturated,
            "saturated": not _is_borne(rate, rounds, row.name), "busy": median(load["busy"] for load in loads)}
    for quantile in QUANTILES:
        line[f"{quantile}_us"] = median(load["latency_us"][quantile] for load in loads)
    if row.name == "direct":
        return line
    for quantile in QUANTILES:
        added = [_added(one, rate, row.name, quantile) for one in rounds]
        line |= {f"added_{quantile}_us": median(added), f"added_{quantile}_min_us": min(added),
                 f"added_{quantile}_max_us": max(added)}
        line[f"added_{quantile}_low_us"], line[f"added_{quantile}_high_us"] = middle_half(added)
    return line


def summarize(rows, rates, rounds):
    """One dict a row and rate: medians over the rounds, in microseconds."""
    return [_row(row, rate, rounds) for rate in rates for row in rows]


def round_trip(rounds):
    """Of Redis, at a quiet moment of each round."""
    trips = [one["redis_round_trip_us"] for one in rounds]
    return {quantile: median(trip[quantile] for trip in trips) for quantile in ("p50", "p99")}


def _bound(name, of, figures, at_most, is_borne):
    """A row that does not bear the rate holds nothing at it; nor is anything held beside one that does not."""
    return {"name": name, "of": of, "is": median(figures), "at_most": at_most,
            "holds": is_borne and median(figures) <= at_most}


def bounds(rows, rate, rounds):
    """At @rate, half a load: what must hold, each taken within its round."""
    names = [row.name for row in rows]
    found = []
    if "sluice" in names and "nginx-limit-req" in names:
        more = [_added(one, rate, "sluice", "p99") - _added(one, rate, "nginx-limit-req", "p99")
                for one in rounds]
        found.append(_bound("sluice", "p99 added, beyond what nginx limit_req adds, µs", more, 0,
                            _is_borne(rate, rounds, "sluice", "nginx-limit-req")))
    for name in [name for name in REDIS_ROWS if name in names]:
        for quantile, of in TRIPS.items():
            more = [_added(one, rate, name, "p99") - one["redis_round_trip_us"][quantile] for one in rounds]
            found.append(_bound(name, of, more, REDIS_SLACK_US, _is_borne(rate, rounds, name)))
    return found


def _line(entry):
    told = "".join(f"{entry[f'{quantile}_us']:10.0f}" for quantile in QUANTILES)
    if entry["name"] != "direct":
        told += "".join(f"{entry[f'added_{quantile}_us']:10.0f}" for quantile in QUANTILES)
        told += f"  ({entry['added_p99_low_us']:.0f}..{entry['added_p99_high_us']:.0f})"
    if entry["n_saturated"]:
        word = "SATURATED" if entry["saturated"] else "saturated"
        told += f"  {word} in {entry['n_saturated']} of {entry['n_rounds']} rounds"
    return f"{entry['title']:<26}{entry['busy']:6.0%}{told}"


def table(result):
    head = (f"{'':<26}{'busy':>6}{'p50 µs':>10}{'p99':>10}{'p99.9':>10}{'added p50':>10}{'p99':>10}{'p99.9':>10}"
            "  (middle half of p99)")
    blocks = []
    for rate in result["rates"]:
        lines = [_line(entry) for entry in result["rows"] if entry["rate"] == rate]
        blocks.append("\n".join([f"{rate} requests a second", head, *lines]))
    facts = [f"a round trip of Redis, quiet: p50 {result['redis_round_trip_us']['p50']:.0f} µs,"
             f" p99 {result['redis_round_trip_us']['p99']:.0f} µs",
             f"the generator sent later than it meant, by itself: p99 {result['lag_p99_us']:.0f} µs"]
    if result["lag_p99_us"] > BUSY_US:
        facts.append("THE MACHINE WAS BUSY with something else: these figures tell of that")
    facts += [f"at most, closed loop: {name} {most:.0f} requests a second"
              for name, most in result["maxima"].items()]
    blocks.append("\n".join(facts))
    told = [f"{bound['name']:<26}{bound['of']}: {bound['is']:.0f}, at most {bound['at_most']}:"
            f" {'holds' if bound['holds'] else 'EXCEEDED'}" for bound in result["bounds"]]
    if told:
        blocks.append("\n".join([f"Bounds, at {result['half_load']} requests a second", *told]))
    return "\n\n".join(blocks)
