"""make_text: write the text that the dataset `cpython` reads, one archive of the standard library's sources.

    python tools/make_text.py DIR                                    # from the Python that runs this, if it is 3.11.7
    python tools/make_text.py DIR --lib .../Python-3.11.7/Lib        # from the official source, unpacked

DIR is a data folder, as in --data DIR. The archive holds every .py of Lib but tests, in the order of names, with
\n at the ends of lines. Names and contents are all that it depends on, so that each machine writes the same bytes; what
has another SHA-256 than the dataset expects is refused. Tried with the files that pyenv installs from that source.
"""

import argparse
import io
import sysconfig
import tarfile
from pathlib import Path

from supple_lab.data.base import DataError
from supple_lab.data.files import check_digest
from supple_lab.data.text import CPython
from supple_lab.files import atomic_write

LEFT_OUT = {"test", "tests", "idle_test", "site-packages", "msilib"}  # folders; the last is installed on Windows alone
OF_THE_BUILD = ("_sysconfigdata", "config-")  # how the names of what an installation adds to Lib begin


def is_wanted(file: Path) -> bool:
    """Whether a file, by its path in Lib, belongs to the text."""
    return LEFT_OUT.isdisjoint(file.parts) and not file.parts[0].startswith(OF_THE_BUILD)


def archive_of(lib: Path) -> bytes:
    """The archive's bytes: no dates, owners or rights of this machine."""
    content = io.BytesIO()
    files = sorted((file.relative_to(lib) for file in lib.rglob("*.py")), key=Path.as_posix)
    with tarfile.open(fileobj=content, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for file in filter(is_wanted, files):
            text = (lib / file).read_bytes().replace(b"\r\n", b"\n")
            member = tarfile.TarInfo(file.as_posix())
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    return content.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lib", type=Path, default=Path(sysconfig.get_path("stdlib")))
    arguments = parser.parse_args()
    content, file = archive_of(arguments.lib), arguments.folder / CPython.subfolder / CPython.file.name
    try:
        check_digest(file.name, content, expected=CPython.file.digest)
    except DataError as error:
        raise SystemExit(f"{arguments.lib} is not the library of CPython {CPython.version}: {error}") from error
    file.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(file, content)
    print(f"{file}: {len(content):,} bytes")


if __name__ == "__main__":
    main()
