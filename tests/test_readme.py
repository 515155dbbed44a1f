"""The README's code runs as written, with every method that it names."""

import re
from pathlib import Path

import pytest
import torch

README = (Path(__file__).parent.parent / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_readme_code_runs_as_written(capsys):
    namespace: dict[str, object] = {}
    assert len(BLOCKS) == 3
    for block in BLOCKS:
        exec(block, namespace)
    printed = capsys.readouterr().out
    assert "AID(p=0.9)" in printed
    assert "dormant" in printed
    assert "plastic: value" in printed  # of the gap


def weights_after(method: str) -> torch.Tensor:
    """All weights after the README's loop with another method, in stages of 5 steps."""
    use, gap, loop = BLOCKS
    short = loop.replace("* 200", "* 5").replace("CBP()", method)
    assert short.count("* 5") == short.count(method) == 1
    namespace: dict[str, object] = {}
    torch.manual_seed(0)
    exec(use + gap.partition("print(")[0] + "from supple.methods import *\n" + short, namespace)
    return torch.cat([p.detach().flatten() for p in namespace["network"].parameters()])


@pytest.fixture(scope="module")
def vanilla() -> torch.Tensor:
    return weights_after("Vanilla()")


# At its defaults CBP replaces nothing in 10 steps, and no unit of AID is dormant.
@pytest.mark.parametrize(
    "method",
    [
        *("CBP(replacement_rate=0.1, maturity=2)", "ReDo(threshold=1.0)", "L2Init()", "ShrinkPerturb()", "DASH()"),
        *("SEWC()", "FullReset()"),
    ],
)
def test_readme_loop_does_what_each_method_that_it_names_does(method, vanilla):
    assert method.partition("(")[0] in BLOCKS[2].partition("\n\n")[0]
    assert not torch.equal(weights_after(method), vanilla)


def test_readme_is_short():
    assert README.count("\n") < 150
