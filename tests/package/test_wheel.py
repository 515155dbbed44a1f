"""The wheel, built from the source distribution and installed into an environment that has torch and no laboratory."""

import re
import shutil
import zipfile

import pytest
from fresh_environment import ROOT, Environment, build_wheel, make_dist
from test_platforms import LIKE_WINDOWS

from supple import __version__

pytest.importorskip("build", reason="`make test` installs it")

# The tests of the library that the laboratory has no part in, and what they share.
LIBRARY_TESTS = ("conversion", "kernels", "layers", "methods", "metrics")
LIBRARY_TESTS += tuple(
    f"test_{name}.py" for name in ("attach", "convert", "default_generator", "functional", "learner")
)
LIBRARY_TESTS += tuple(f"test_{name}.py" for name in ("mask_stream", "monitor", "surgery", "tracing", "every_method"))
FOR_TESTS = (
    "numpy",
    "scipy",
    "scikit-learn",
    "matplotlib",
    "pytest",
    "hypothesis",
    "onnx",
    "onnxruntime",
    "onnxscript",
)
SHARED = ("conftest.py", "timm_shim.py", "by_hand.py", "cut_off.py", "networks.py", "networks_lm.py", "networks_zoo.py")
SHARED += ("oracles", "property_settings.py", "random_networks.py", "renewal_training.py", "slowly.py", "written.py")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build_wheel(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def environment(tmp_path_factory, wheel):
    made = Environment.create(tmp_path_factory.mktemp("fresh") / "venv", "torch", *FOR_TESTS)
    made.install(wheel)
    return made


def test_installed_library_is_imported_without_the_laboratory_and_computes(environment):
    code = "import sys, supple, torch; print(supple.__file__); print('supple_lab' in sys.modules); "
    code += "print(supple.AID(0.9).eval()(torch.tensor([1.0, -1.0])).tolist()); print(supple.kernels.describe())"
    where, lab, values, kernels = environment.python(code).splitlines()[:4]
    assert where.startswith(str(environment.folder))
    assert lab == "False"
    assert [round(value, 6) for value in eval(values)] == [0.9, -0.1]
    assert kernels.startswith("cpu: fused") == (shutil.which("cc") is not None)


def test_version_is_the_same_in_code_metadata_and_command(environment):
    metadata = environment.python("import importlib.metadata as m; print(m.version('supple'))")
    assert environment.run("supple", "--version").stdout == f"supple {__version__}\n"
    assert metadata == __version__


def test_command_says_how_to_install_the_laboratory(environment):
    done = environment.run("supple", "list")
    assert done.returncode == 2
    assert "pip install -e '.[lab]' in a checkout" in done.stderr
    assert "Traceback" not in done.stderr


def test_wheel_holds_every_file_that_the_packages_need(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    not_needed = (".so", ".pyc", ".md")
    files = [p.relative_to(ROOT / "src") for p in (ROOT / "src").glob("supple*/**/*") if p.is_file()]
    wanted = {str(p) for p in files if p.suffix not in not_needed and not p.parts[0].endswith(".egg-info")}
    assert "supple/py.typed" in wanted
    assert wanted <= names


@pytest.mark.slow
def test_without_a_compiler_the_wheel_is_built_for_any_platform(tmp_path):
    wheel = build_wheel(tmp_path / "built", compiler="no-such-compiler")
    assert wheel.name.endswith("-py3-none-any.whl")


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    pytest.importorskip("auditwheel", reason="`make test` installs it on Linux")
    return make_dist(tmp_path_factory.mktemp("made"))


# The lowest glibc that torch's own wheels ask for is 2.28: a wheel that asks for more would shut people out.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("ending", "kernel"),
    [
        (r"\.tar\.gz", "fused C kernel"),
        (r"-py3-none-any\.whl", "portable torch kernel"),
        (r"manylinux_2_(17|28)_\w+\.whl", "fused C kernel"),
    ],
)
def test_each_distribution_installs_into_a_fresh_environment_and_runs_the_readme(
    ending, kernel, distributions, tmp_path
):
    (distribution,) = [path for path in distributions if re.search(ending + "$", path.name)]
    environment = Environment.create(tmp_path / "venv", "torch", "setuptools")
    environment.install(distribution)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert "AID(p=0.9)" in environment.python("\n".join(blocks))
    assert f"\nkernel of cpu: {kernel} (" in environment.run("python", "-m", "supple").stdout
    if "-any" in ending:  # where Windows and macOS get it from
        printed = environment.run("python", LIKE_WINDOWS, "torch", "torch._dynamo", "-c", blocks[0])
        assert printed.returncode == 0, printed.stderr


@pytest.mark.slow
def test_tests_of_the_library_pass_against_the_installed_wheel(environment, tmp_path):
    copied = [f"tests/{name}" for name in (*LIBRARY_TESTS, *SHARED)]
    for folder in ("tests", "docs"):
        (tmp_path / folder).mkdir()
    for name in (*copied, "examples", "docs/methods.md"):
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tmp_path / name)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  gpu: needs a CUDA device\n  slow: takes long\n")
    done = environment.run("python", "-m", "pytest", "-q", "-m", "not slow", "tests", cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
