"""What `import supple` loads beyond torch: little, so that it takes little time."""

import subprocess
import sys

# What is heavy in torch and in supple, and serves only those who use it.
NOT_LOADED = {"torch._dynamo", "torch._inductor", "triton", "sympy", "supple_lab"}
NOT_LOADED |= {
    f"supple.{name}" for name in ("convert.conversion", "integrations", "theory", "units.export", "units.follow")
}


def test_import_of_supple_loads_nothing_that_only_some_use():
    code = "import torch, sys; before = set(sys.modules); import supple; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "supple.convert" in loaded
    assert not loaded & NOT_LOADED
    outside = {name for name in loaded if name.partition(".")[0] != "supple"}
    assert not {name for name in outside if name.partition(".")[0] not in sys.stdlib_module_names}
