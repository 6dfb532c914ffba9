"""A wall clock that a test sets while the program runs: libfaketime, preloaded. The monotonic clocks stay real."""

import glob
import os
import time

DAY_S = 86400
LIBRARY = "/usr/lib/*/faketime/libfaketimeMT.so.1"


class WallClock:
    """What the wall clock of the programs that are started with env says: the real one plus offset_s."""

    def __init__(self, folder):
        libraries = glob.glob(LIBRARY)
        assert libraries, "faketime is not installed: see scripts/install-packages"
        self.file = folder / "wall_clock"
        self.offset_s = 0
        self.env = {
            "LD_PRELOAD": libraries[0],
            # AddressSanitizer loaded first waits for itself in libfaketime 0.9.10, and ThreadSanitizer in 0.9.11.
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0",
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_NO_CACHE": "1",
        }
        self.step(0)

    def now(self):
        return time.time() + self.offset_s

    def step(self, by_s):
        """As `date -s` does."""
        self.offset_s += by_s
        new = self.file.with_suffix(".new")
        new.write_text(f"{self.offset_s:+.3f}\n")
        new.replace(self.file)

    def step_to_before_midnight(self, left_s):
        """On to the next time when so many seconds of a day (UTC) are left."""
        self.step((DAY_S - left_s - self.now()) % DAY_S)
