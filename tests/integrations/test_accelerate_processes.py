"""The recipe for Accelerate, as it stands, in two processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests/docs"))
from markdown_pages import python_programs  # noqa: E402

WEIGHTS = """
weights = torch.cat([each.detach().flatten() for each in model.parameters()])
torch.save((weights, plasticity.num_steps, plasticity.state_dict()), f"{accelerator.process_index}.pt")
accelerator.end_training()
"""


@pytest.mark.slow
def test_copies_stay_bit_equal_and_cbp_acts(tmp_path):
    pytest.importorskip("accelerate", reason="accelerate is not installed (pip install .[integrations])")
    import torch

    page = (ROOT / "docs/recipes.md").read_text()
    (tmp_path / "recipe.py").write_text(python_programs(page, whole=False)["Accelerate"] + WEIGHTS)
    start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "recipe.py"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    subprocess.run(start, cwd=tmp_path, env=environment, check=True, timeout=240)
    (weights, num_steps, _), (others, other_steps, _) = (
        torch.load(tmp_path / f"{rank}.pt", weights_only=False) for rank in (0, 1)
    )
    assert num_steps == other_steps == 4  # 256 images in batches of 32, by two processes
    assert torch.equal(weights, others)
