"""The Debian package: what is in it, what it wants, and that it works where it is unpacked."""

import pathlib
import subprocess

import pytest

from harness.program import PROGRAM

CONFIG = pathlib.Path(PROGRAM).resolve().parent / "CPackConfig.cmake"


def run(*argv):
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module", name="package")
def _package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("package")
    run("cpack", "-G", "DEB", "--config", CONFIG, "-B", folder)
    found, = folder.glob("*.deb")
    return found


@pytest.fixture(scope="module", name="root")
def _root(package, tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    run("dpkg-deb", "--extract", package, root)
    return root


def test_it_has_the_program_its_unit_and_its_manual(root):
    for name in ("usr/bin/sluice", "lib/systemd/system/sluice.service", "lib/systemd/system/sluice.socket",
                 "etc/sluice/policy.yaml", "etc/default/sluice", "usr/share/man/man1/sluice.1",
                 "usr/share/bash-completion/completions/sluice", "usr/share/zsh/vendor-completions/_sluice",
                 "usr/share/doc/sluice/policy.md", "usr/share/doc/sluice/examples/quickstart.yaml"):
        assert (root / name).is_file(), name


def test_it_wants_the_libraries_and_keeps_what_an_operator_has_changed(package):
    wanted = run("dpkg-deb", "--field", package, "Depends")
    for library in ("libevent-core", "libhiredis", "libjansson4", "libsodium23", "libsystemd0", "libyaml-0-2", "tzdata"):
        assert library in wanted
    kept = run("dpkg-deb", "--info", package, "conffiles").split()
    assert kept == ["/etc/default/sluice", "/etc/sluice/policy.yaml"]


def test_its_policy_is_sound_for_its_program(root):
    ended = subprocess.run([root / "usr/bin/sluice", "check", "--strict", root / "etc/sluice/policy.yaml"],
                           capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "") and ": ok: " in ended.stdout


def test_its_scripts_are_shell_and_its_unit_runs_what_is_in_it(package, root, tmp_path):
    run("dpkg-deb", "--control", package, tmp_path / "control")
    for name in ("postinst", "prerm", "postrm"):
        run("sh", "-n", tmp_path / "control" / name)
    unit = (root / "lib/systemd/system/sluice.service").read_text()
    assert "ExecStart=/usr/bin/sluice run /etc/sluice/policy.yaml" in unit
