"""The README's code runs as written."""

import re
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_readme_code_runs_as_written(capsys):
    namespace: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(block, namespace)
    printed = capsys.readouterr().out
    assert "AID(p=0.9)" in printed
    assert "dormant" in printed


def test_readme_is_short():
    assert README.count("\n") < 150
