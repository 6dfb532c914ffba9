"""What must be there before anything is measured: programs of others, and sluice built."""

import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

from stage import StageError

ROOT = pathlib.Path(__file__).parent.parent.parent
RELEASE = ROOT / "build" / "release" / "sluice"
PACKAGED = ROOT / "build" / "profiled" / "sluice"
PROGRAMS = ["nginx", "haproxy", "redis-server", "strace", "wrk"]
LUA_MODULE = pathlib.Path("/usr/lib/nginx/modules/ngx_http_lua_module.so")
PACKAGES = ["nginx-light", "libnginx-mod-http-lua", "haproxy", "redis-server", "strace", "wrk"]


def say(text):
    print(text, file=sys.stderr, flush=True)


def _run(argv, what, **options):
    ended = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           **options)
    if ended.returncode != 0:
        raise StageError(f"{what} failed ({' '.join(map(str, argv))}):\n{ended.stdout[-4000:]}")


def install_peers(programs=PROGRAMS, with_lua=True):
    """Installs what is missing of what is needed; does nothing when all is there."""
    missing = [program for program in programs if not shutil.which(program)]
    if not missing and (LUA_MODULE.exists() or not with_lua):
        return
    say("installing " + ", ".join(PACKAGES))
    script = ROOT / "scripts" / "install-packages"
    if script.exists():
        _run([script, "bench"], "installing packages")
        return
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    _run(["apt-get", "update"], "reading the package lists")
    _run(["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES],
         "installing packages", env=environment)


def build_sluice():
    """The release build of this tree; quick when nothing has changed."""
    say("building sluice (preset release)")
    _run(["cmake", "--preset", "release"], "configuring", cwd=ROOT)
    _run(["cmake", "--build", "--preset", "release"], "building", cwd=ROOT)
    if not RELEASE.exists():
        raise StageError(f"the build made no {RELEASE.relative_to(ROOT)}")
    return RELEASE


def build_packaged():
    """The program that packages hold, optimised by a load (scripts/build-profiled); quick when nothing has changed."""
    say("building sluice (scripts/build-profiled)")
    _run([str(ROOT / "scripts" / "build-profiled")], "building", cwd=ROOT)
    return PACKAGED


def build_program(name):
    """A program of this folder's own, of the release build."""
    say(f"building {name} (preset release)")
    _run(["cmake", "--preset", "release"], "configuring", cwd=ROOT)
    _run(["cmake", "--build", "--preset", "release", "--target", name], "building", cwd=ROOT)
    return RELEASE.parent / name


def programs_for(arguments, rows):
    """Installs the peers that @rows need; sluice and bench_load, as given or built here."""
    names = [row.name for row in rows]
    needed = ["nginx", "redis-server"]
    needed += ["haproxy"] if any("haproxy" in name for name in names) else []
    install_peers(needed, any("lua" in name for name in names))
    return {
        "sluice": arguments.sluice.resolve() if arguments.sluice else build_sluice(),
        "bench_load": arguments.load.resolve() if arguments.load else build_program("bench_load"),
    }


def first_line(argv):
    """What a program says first: its version, mostly."""
    ended = subprocess.run(argv, capture_output=True, text=True)
    return (ended.stdout or ended.stderr).strip().splitlines()[0]


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def kernel():
    """Its number: what a distribution or a cloud appends tells nobody anything."""
    return re.match(r"\d+(\.\d+)*", platform.release())[0]


VERSIONS = {"nginx": ["nginx", "-v"], "haproxy": ["haproxy", "-v"],
            "redis": ["redis-server", "--version"], "wrk": ["wrk", "-v"]}


def machine(sluice):
    """What the figures depend on, to be kept beside them."""
    facts = {"cores": os.cpu_count(), "processor": processor(), "kernel": kernel()}
    facts |= {name: first_line(argv) for name, argv in VERSIONS.items() if shutil.which(argv[0])}
    if sluice:
        facts["sluice"] = first_line([str(sluice), "--version"])
    return facts
