"""The Debian package: what is in it, what it wants, and that it works where it is unpacked."""

import gzip
import os
import pathlib
import re
import shutil
import subprocess

import pytest
import yaml

from harness.program import PROGRAM

POLICY, DEFAULT = "etc/sluice/policy.yaml", "etc/default/sluice"
PROJECT = pathlib.Path(__file__).resolve().parents[2]
CONFIG = pathlib.Path(PROGRAM).resolve().parent / "CPackConfig.cmake"


def run(*argv):
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module", name="package")
def _package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("package")
    run("cpack", "-G", "DEB", "--config", CONFIG, "-B", folder, "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip")  # quick
    found, = folder.glob("*.deb")
    return found


@pytest.fixture(scope="module", name="root")
def _root(package, tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    run("dpkg-deb", "--extract", package, root)
    return root


def test_it_has_the_program_its_unit_and_its_manual(root):
    for name in ("usr/bin/sluice", "lib/systemd/system/sluice.service", "lib/systemd/system/sluice.socket",
                 "etc/sluice/policy.yaml", "etc/default/sluice", "usr/share/man/man1/sluice.1.gz",
                 "usr/share/bash-completion/completions/sluice", "usr/share/zsh/vendor-completions/_sluice",
                 "usr/share/doc/sluice/copyright", "usr/share/doc/sluice/policy.md",
                 "usr/share/doc/sluice/examples/quickstart.yaml"):
        assert (root / name).is_file(), name


def test_it_wants_the_libraries_and_keeps_what_an_operator_has_changed(package):
    wanted = run("dpkg-deb", "--field", package, "Depends")
    for library in ("libcurl4", "libevent-core", "libhiredis", "libjansson4", "libsodium23", "libsystemd0",
                    "libssl3", "libyaml-0-2", "tzdata"):
        assert library in wanted
    kept = run("dpkg-deb", "--info", package, "conffiles").split()
    assert kept == ["/etc/default/sluice", "/etc/sluice/policy.yaml"]


def test_its_manual_has_the_alerts_and_the_dashboard_and_no_link_that_leads_nowhere(root):
    manual = root / "usr/share/doc/sluice"
    pages = list(manual.rglob("*.md"))
    links = [(page, target) for page in pages
             for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()) if "://" not in target]
    assert len(links) > 100
    assert [(page.name, target) for page, target in links if not (page.parent / target).exists()] == []
    for name in ("prometheus/alerts.yml", "grafana/dashboards/sluice.json"):
        assert (manual / "examples" / name).is_file()
        assert any((page.parent / target).resolve() in [manual / "examples" / name, *(manual / "examples" / name).parents]
                   for page, target in links if "examples" in target), name


def test_its_copyright_has_the_licence(root):
    licence = (PROJECT / "LICENSE").read_text().partition("Permission is")[2].split()
    copyright_ = (root / "usr/share/doc/sluice/copyright").read_text()
    assert " ".join(licence) in " ".join(word for word in copyright_.split() if word != ".")
    assert "License: Expat" in copyright_  # Debian's name for it


def test_its_policy_is_sound_for_its_program(root):
    ended = subprocess.run([root / "usr/bin/sluice", "check", "--strict", root / "etc/sluice/policy.yaml"],
                           capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "") and ": ok: " in ended.stdout


def test_its_scripts_are_shell_and_its_unit_runs_what_is_in_it(package, root, tmp_path):
    run("dpkg-deb", "--control", package, tmp_path / "control")
    for name in ("postinst", "prerm", "postrm"):
        run("sh", "-n", tmp_path / "control" / name)
    unit = (root / "lib/systemd/system/sluice.service").read_text()
    control, = values_of(unit, "RuntimeDirectory")
    control = f"/run/{control}/control.sock"
    assert values_of(unit, "ExecStart") == [f"/usr/bin/sluice run --control {control} /etc/sluice/policy.yaml"]
    assert values_of(unit, "ExecReload") == [f"/usr/bin/sluice reload --socket {control}"]


def values_of(unit, key):
    """Of a key in the unit, in their order."""
    return re.findall(rf"^{key}=(.*)$", unit, re.MULTILINE)


def test_its_unit_confines_the_service(root):
    path = root / "lib/systemd/system/sluice.service"
    unit = path.read_text()
    for key, value in (("ProcSubset", "pid"), ("UMask", "0027"), ("NoNewPrivileges", "yes"),
                       ("PrivateMounts", "yes"), ("CapabilityBoundingSet", "CAP_NET_BIND_SERVICE")):
        assert values_of(unit, key) == [value], key
    # A capability within a user namespace opens no port of the host.
    assert values_of(unit, "AmbientCapabilities") == ["CAP_NET_BIND_SERVICE"]
    assert not values_of(unit, "PrivateUsers")
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze, which would say how exposed the service is, is not installed")
    found = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=15", path],
                           capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout[-400:]


def test_its_secrets_are_for_root_to_read_and_for_no_shell(package, root, tmp_path):
    assert (root / DEFAULT).stat().st_mode & 0o777 == 0o640
    listed = [line.split() for line in run("dpkg-deb", "--contents", package).splitlines()]
    assert ["-rw-r-----", "root/root"] in [line[:2] for line in listed if line[-1] == f"./{DEFAULT}"]
    run("dpkg-deb", "--control", package, tmp_path / "control")
    script = (tmp_path / "control/postinst").read_text()
    assert re.findall(r".*/etc/default/sluice.*", script) == [
        "    if systemd-run --quiet --wait --pipe --collect --property=EnvironmentFile=-/etc/default/sluice \\"]


def test_its_changelog_ends_with_its_version(package, root):
    with gzip.open(root / "usr/share/doc/sluice/changelog.gz", "rt") as file:
        newest = re.match(r"sluice \((\S+)\) ", file.readline())
    assert newest.group(1) == run("dpkg-deb", "--field", package, "Version").strip()


# --- containers ---

DOCKER = PROJECT / "docker"


def test_each_container_is_confined():
    services = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]
    assert {"proxy-1", "proxy-2", "upstream", "redis", "prometheus", "grafana"} == set(services)
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"] and "cap_add" not in service, name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        # Nothing is written to where nothing may be, and an edit that replaces a file is seen.
        assert all(mount.endswith(":ro") for mount in service.get("volumes", [])), name
        assert all((DOCKER / mount.split(":")[0]).is_dir() for mount in service.get("volumes", [])), name


def test_a_digest_can_be_given_for_each_image():
    lines = (DOCKER / "Dockerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith("FROM ")] == ["FROM ${BASE} AS build", "FROM ${BASE}"]
    assert "ARG BASE=debian:13-slim" in lines and "USER 10001:10001" in lines
    services = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]
    images = {service["image"] for service in services.values()}
    assert all(image == "sluice" or re.fullmatch(r"\$\{[A-Z]+_IMAGE:-\S+\}", image) for image in images)
    assert services["upstream"]["build"]["args"] == {"BASE": "${SLUICE_BASE:-debian:13-slim}"}


# --- installed, in a root that has a shell and nothing else ---

MINE = "# mine\n"


class Machine:
    """A root where packages are installed: with the tools that their scripts run, without systemd."""

    def __init__(self, folder):
        self.folder = folder
        for name in ("info", "updates", "triggers"):
            (folder / "var/lib/dpkg" / name).mkdir(parents=True)
        (folder / "var/lib/dpkg/status").touch()
        for tool in ("/bin/sh", "/bin/rm"):
            self._bring(tool)
            for library in re.findall(r"(/\S+) \(0x", run("ldd", tool)):
                self._bring(library)

    def _bring(self, path):
        target = self.folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)

    def dpkg(self, *words):
        run("dpkg", f"--root={self.folder}", "--force-depends", "--force-confold", *words)

    def has(self, path):
        return (self.folder / path).exists()


def newer(package, folder):
    """The same with a higher version and another policy."""
    run("dpkg-deb", "--raw-extract", package, folder)
    control = folder / "DEBIAN/control"
    control.write_text(re.sub(r"^Version: .*", "Version: 99", control.read_text(), flags=re.MULTILINE))
    (folder / POLICY).write_text("# theirs\n" + (folder / POLICY).read_text())
    run("dpkg-deb", "--build", "-Zgzip", "--root-owner-group", folder, folder.with_suffix(".deb"))
    return folder.with_suffix(".deb")


@pytest.fixture(name="machine")
def _machine(package, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("root alone installs packages")
    machine = Machine(tmp_path / "machine")
    machine.dpkg("--install", package)
    return machine


def test_what_an_operator_has_changed_outlives_upgrades_and_removal(machine, package, tmp_path):
    with open(machine.folder / POLICY, "a", encoding="utf-8") as file:
        file.write(MINE)
    changed = (machine.folder / POLICY).read_text()
    for upgrade in (package, newer(package, tmp_path / "newer")):
        machine.dpkg("--install", upgrade)
        assert (machine.folder / POLICY).read_text() == changed
    machine.dpkg("--remove", "sluice")
    assert (machine.folder / POLICY).read_text() == changed
    assert not machine.has("usr/bin/sluice")


def test_a_purge_leaves_nothing_behind(machine):
    log = machine.folder / "var/log/sluice/access.log"
    log.parent.mkdir(parents=True)
    log.write_text("a line\n")
    machine.dpkg("--purge", "sluice")
    left = [path for path in machine.folder.rglob("*sluice*") if "dpkg.log" not in path.name]
    assert not left
