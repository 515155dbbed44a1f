"""An archive that was put there by hand and is not the official one is named with what is wrong with it."""

import pytest

from made_files import SmallCIFAR10, expecting, md5
from supple_lab.data.base import DataError
from supple_lab.data.download import obtain
from supple_lab.data.files import Archive

CONTENT = b"the archive"


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        (b"torn", "a file lies there, but it has 4 bytes, not 11\n"),
        (b"the ARCHIVE", f"a file lies there, but it has the md5 {md5(b'the ARCHIVE')}, not {md5(CONTENT)}\n"),
        (None, ""),
    ],
    ids=["of another size", "of another content", "not there"],
)
def test_what_is_wrong_with_a_file_put_there_by_hand_is_told(tmp_path, found, fault):
    archive = Archive(path="a.tar.gz", urls=("http://127.0.0.1:1/a",), length=len(CONTENT), md5=md5(CONTENT))
    if found is not None:
        (tmp_path / "a.tar.gz").write_bytes(found)
    with pytest.raises(DataError) as caught:
        obtain(expecting(SmallCIFAR10, archives=(archive,))(), tmp_path, lambda *_: None)
    assert fault in str(caught.value)
    assert ("lies there" in str(caught.value)) == bool(fault)
