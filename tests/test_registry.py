import sys

import pytest

from supple.methods import Method
from supple_lab import cli, registry


def test_unknown_name_says_what_was_meant_and_what_there_is():
    with pytest.raises(
        LookupError, match=r"no method named 'vanila'. Did you mean 'vanilla'\? Known: .*aid, .*vanilla"
    ):
        registry.find(Method, "vanila")
    with pytest.raises(LookupError, match="no method named 'xyzzy'. Known"):  # like nothing there is
        registry.find(Method, "xyzzy")


@pytest.fixture
def plugin_file(tmp_path, monkeypatch):
    """Where a plugin may be written; what its import leaves behind is undone."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, registry.PLUGIN_MODULE, None)
    monkeypatch.setenv(registry.PLUGIN, "")
    return tmp_path / "mine.py"


def test_a_plugin_can_import_its_neighbour(plugin_file):
    plugin_file.with_name("my_neighbour.py").write_text("NAME = 'next door'")
    plugin_file.write_text("from my_neighbour import NAME")
    module = sys.modules[registry._import_plugin(str(plugin_file))]
    assert module.NAME == "next door"


@pytest.mark.parametrize(
    ("code", "error", "line"),
    [
        ("x = 1\nname = \n", "SyntaxError: invalid syntax", 2),
        ("\n\nimport nowhere_at_all", "ModuleNotFoundError: No module named 'nowhere_at_all'", 3),
        ("raise SystemExit(0)", "SystemExit: 0", 1),
    ],
    ids=["syntax error", "failing import", "end of the process"],
)
def test_a_plugin_that_cannot_be_imported_is_refused_in_a_sentence(plugin_file, capsys, code, error, line):
    plugin_file.write_text(code)
    assert cli.supple(["list", "methods", "--plugin", str(plugin_file)]) == 2
    assert capsys.readouterr().err == (
        f"supple: --plugin {plugin_file} cannot be imported: {error} ({plugin_file}, line {line}).\n"
    )
