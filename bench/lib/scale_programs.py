"""What is measured without a proxy around it: keys, routes, and threads that wait for each other."""

import columns
import json_lines
import matching
import prepare


class Keys:
    """1,000 to 10,000,000 keys in the embedded store."""

    BYTES = 96
    BYTES_FROM = 1_000_000  # keys

    @staticmethod
    def measure(_):
        return json_lines.measure([prepare.build_program("bench_decisions"), "keys"], "{keys} keys")

    @classmethod
    def bounds(cls, rows):
        return [columns.bound(f"bytes a key of {row['keys']:,}", row["bytes_per_key"], cls.BYTES)
                for row in rows if row["keys"] >= cls.BYTES_FROM]

    @staticmethod
    def table(rows):
        return columns.table(
            "Keys in the embedded store, in random order; read: one line of as large a table",
            [("keys", "keys", ",d"), ("decision ns", "decision_ns", ".0f"),
             ("read ns", "read_ns", ".0f"), ("bytes a key", "bytes_per_key", ".1f")], rows)


class Routes:
    """1 to 10,000 routes."""

    @staticmethod
    def measure(_):
        return matching.measure(prepare.build_program(matching.PROGRAM))

    bounds = staticmethod(matching.bounds)
    table = staticmethod(matching.table)


class Contention:
    """1 to 8 threads that decide in one embedded store."""

    @staticmethod
    def measure(_):
        lines = json_lines.measure([prepare.build_program("bench_contention")],
                                   "{memory_mib} MiB, {keys} keys, {threads} threads")
        rows = {}
        for line in lines:
            at = (line["memory_mib"], line["keys"], line["threads"])
            row = rows.setdefault(at, {"memory_mib": at[0], "keys": at[1], "threads": at[2]})
            if line["interrupted"]:
                row["waited_interrupted"] = line["waited"]
            else:
                row |= {"waited": line["waited"],
                        "decisions_per_second": line["decisions_per_second"]}
        return list(rows.values())

    @staticmethod
    def bounds(_):
        return []

    @staticmethod
    def table(rows):
        return columns.table(
            "Threads in one embedded store: locks that had to be waited for, as they run, and when every"
            " holder is interrupted",
            [("store MiB", "memory_mib", "d"), ("keys", "keys", ",d"), ("threads", "threads", "d"),
             ("waited", "waited", ".3%"), ("interrupted", "waited_interrupted", ".1%"),
             ("decisions/s", "decisions_per_second", ",.0f")], rows)
