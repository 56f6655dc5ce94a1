"""The command line as a whole."""

import re
import subprocess
import sys

from command_line import fedapp


def test_version():
    assert re.fullmatch(r"fedapp \d+\.\d+\.\d+\n", fedapp("--version").output)


def test_help_needs_neither_torch_nor_flower():
    script = "import sys; import fedapp.cli; print({'torch', 'flwr'} & {*sys.modules})"
    command = [sys.executable, "-c", script]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert answer.stdout.strip() == "set()", answer.stderr
