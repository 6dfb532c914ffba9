"""The tables of spellings in docs/ are those of tests/servers/table.yaml."""

import os
import subprocess
import sys

import tree

sys.exit(subprocess.run(["/usr/bin/python3", "-B", os.path.join(tree.root(), "tests", "servers", "table.py")],
                        check=False).returncode)
