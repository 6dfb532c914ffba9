"""docs/admin.md: every command there is run, in its order, and tells what stands there."""

import os
import re
import subprocess

from harness import program
from harness.admin import Admin, addresses
from harness.wait import until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RUN = re.compile(r"```sh\n(.*?)```\n\n```\n(.*?)```", re.DOTALL)


def manual():
    with open(os.path.join(ROOT, "docs/admin.md"), encoding="utf-8") as file:
        return file.read()


def steady(text):
    """What is the same whenever it is run: no waits, and columns however wide."""
    text = re.sub(r"\bpid \d+", "pid N", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "WHEN", text)
    text = re.sub(r"sluice \d+\.\d+\.\d+", "sluice X", text)
    text = re.sub(r"(listen|admin|policy) +\S.*", lambda fact: re.sub(r":\d+|/\S*/", "N", fact.group()), text)
    text = re.sub(r"\d+ ms ago", "N ms ago", text.replace("\r", ""))
    text = re.sub(r'("\w+_ms": )\d+', r"\1N", text)
    text = re.sub(r"\b\d+(ms|s|m\d+s|h\d+m|d\d+h)\b", "T", text)
    return [re.sub(r" +", " ", line).rstrip() for line in text.strip().splitlines()]


def test_each_command_tells_what_the_manual_says(start, tmp_path):
    text = manual()
    policy = re.search(r"```yaml\n(listen:.*?)```", text, re.DOTALL).group(1)
    policy = policy.replace("/run/sluice", str(tmp_path))
    assert policy.count("127.0.0.1:8080") == 1 and policy.count("127.0.0.1:9900") == 1
    proxy = start("workers: 2\n" + policy.replace(":8080", ":0").replace(":9900", ":0"))
    admin = addresses(proxy, 2)[1]
    until(lambda: Admin(admin).read("/healthz")["workers"] == 2, "both loops to turn")
    runs = RUN.findall(text)
    assert len(runs) == text.count("```sh") > 6
    for commands, told in runs:
        script = commands.replace("/run/sluice", str(tmp_path)).replace(
            ":8080", f":{proxy.port}").replace(":9900", f":{admin[1]}")
        result = subprocess.run(
            ["bash", "-c", f'sluice() {{ "{program.PROGRAM}" "$@"; }}\n{script}'], cwd=ROOT,
            capture_output=True, text=True, timeout=60, check=False,
            env=program.environment({"SLUICE_SOCKET": f"{tmp_path}/admin.sock"}))
        assert steady(result.stdout + result.stderr) == steady(told), commands


def test_every_word_of_ctl_and_every_resource_is_in_some_manual(start, tmp_path):
    proxy = start(f'admin: "unix:{tmp_path}/a"\nroutes: [{{respond: {{status: 204}}}}]\n')
    pages = ""
    for name in os.listdir(os.path.join(ROOT, "docs")):
        if name.endswith(".md"):
            with open(os.path.join(ROOT, "docs", name), encoding="utf-8") as file:
                pages += file.read()
    for word in re.findall(r"^  ([a-z]+) ", program.command("ctl", "--help").stdout, re.MULTILINE):
        assert re.search(rf"`{word}( [A-Z]+)*`|sluice ctl {word}\b", pages), word
    for resource in Admin(addresses(proxy)[0]).read("/")["resources"]:
        path = re.sub(r"{(\w+)}", lambda name: name.group(1).upper(), resource["path"])
        assert f"{resource['method']} {path}`" in pages, resource
