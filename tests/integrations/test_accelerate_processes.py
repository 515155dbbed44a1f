"""The recipe for Accelerate, as it stands, in two processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests/docs"))
from markdown_pages import python_programs  # noqa: E402

GOING_ON = """
num_steps, found = plasticity.num_steps, []
for part in range(2):
    for _ in range(3):
        accelerator.backward(nn.functional.cross_entropy(model(x), y))
        optimizer.step()
        optimizer.zero_grad()
    found.append(torch.cat([each.detach().flatten() for each in model.parameters()]))
    if not part:
        accelerator.load_state("state")
torch.save((*found, num_steps, plasticity.num_steps), f"{accelerator.process_index}.pt")
accelerator.end_training()
"""


@pytest.mark.slow
def test_copies_stay_bit_equal_over_accumulated_batches_and_resume(tmp_path):
    pytest.importorskip("accelerate", reason="accelerate is not installed (pip install .[integrations])")
    import torch

    page = (ROOT / "docs/recipes.md").read_text()
    (tmp_path / "recipe.py").write_text(python_programs(page, whole=False)["Accelerate"] + GOING_ON)
    start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "recipe.py"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    subprocess.run(start, cwd=tmp_path, env=environment, check=True, timeout=240)
    (weights, resumed, *steps), (others, _, *other_steps) = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    assert steps == other_steps == [4, 7]  # 256 examples, two batches of 16 a step, by two processes; then three steps
    assert torch.equal(weights, others)
    assert torch.equal(weights, resumed)
