"""TinyImageNet: folders of JPEG files, decoded once and kept as raw bytes with a checksum.

The decoded images are made again if they are damaged or their files have changed.
"""

import hashlib
import os
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from supple_lab.data.base import DataError, Facts, Splits
from supple_lab.data.files import Archive, OnDisk, Pixels, cache_folder
from supple_lab.files import StorageError, WrongContent, read_sealed, write_sealed

KIND = "decoded"  # images, sealed under the fingerprint of their files


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The images of both splits, those for training first; classes are numbered in the order of their names."""

    files: list[str]
    labels: list[int]
    num_train: int
    fingerprint: str  # changes when a file comes, goes, or is written again

    @property
    def num_test(self) -> int:
        return len(self.files) - self.num_train


def list_images(folder: Path, *, num_classes: int) -> Listing:
    label_of = {name: label for label, name in enumerate(sorted(_text(folder / "wnids.txt").split()))}
    if len(label_of) != num_classes:
        raise DataError(f"{folder / 'wnids.txt'}: {num_classes} classes expected, {len(label_of)} found")
    train, test = list(_train(folder, label_of)), list(_val(folder, label_of))
    seen = hashlib.sha256()
    for entry, label in train + test:
        status = entry.stat()
        seen.update(f"{entry.path[len(str(folder)) :]} {label} {status.st_size} {status.st_mtime_ns}\n".encode())
    files, labels = [entry.path for entry, _ in train + test], [label for _, label in train + test]
    return Listing(files=files, labels=labels, num_train=len(train), fingerprint=seen.hexdigest())


def decode_into_(out_NCHW: Pixels, files: Sequence[str]) -> None:
    """Decode every file to RGB, grey ones too; the decoder leaves the interpreter to other threads."""

    def decode(index: int) -> None:
        out_NCHW[index] = _decoded(files[index], size=out_NCHW.shape[2:])

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(decode, range(len(files))):
            pass


def _decoded(file: str, *, size: tuple[int, ...]) -> Pixels:
    from PIL import Image  # nothing else needs it

    try:
        with Image.open(file, formats=["JPEG"]) as image:
            if image.size[::-1] != size:
                raise DataError(f"{file}: {size[1]}x{size[0]} pixels expected, {image.size[0]}x{image.size[1]} found")
            return np.asarray(image.convert("RGB")).transpose(2, 0, 1)
    # Pillow raises SyntaxError at some broken headers, and does not open what would take gigabytes.
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"{file}: not a whole JPEG image: {error}") from error


def _train(folder: Path, label_of: dict[str, int]) -> Iterator[tuple[os.DirEntry, int]]:
    for place in _entries(folder / "train"):
        if place.name not in label_of:
            raise DataError(f"{place.path}: no class of that name in wnids.txt")
        for entry in _entries(Path(place.path, "images")):
            yield entry, label_of[place.name]


def _val(folder: Path, label_of: dict[str, int]) -> Iterator[tuple[os.DirEntry, int]]:
    annotations = folder / "val" / "val_annotations.txt"
    rows = [line.split("\t") for line in _text(annotations).splitlines()]
    class_of = {row[0]: row[1] if len(row) > 1 else "" for row in rows}
    if unknown := set(class_of.values()) - label_of.keys():
        raise DataError(f"{annotations}: {sorted(unknown)[0]!r} is no class of wnids.txt")
    for entry in _entries(folder / "val" / "images"):
        if entry.name not in class_of:
            raise DataError(f"{entry.path}: val_annotations.txt does not say its class")
        yield entry, label_of[class_of[entry.name]]


def _entries(folder: Path) -> list[os.DirEntry]:
    """What a folder holds, in the order of names, hidden files left out; nothing if there is no such folder."""
    try:
        with os.scandir(folder) as entries:
            return sorted((e for e in entries if not e.name.startswith(".")), key=lambda entry: entry.name)
    except OSError:
        return []


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: cannot be read: {error}") from error


@dataclass(frozen=True, kw_only=True)
class TinyImageNet(OnDisk):
    """3x64x64 photographs, normalised by channel; the official validation split is the test split.

    `facts` are those of the whole dataset; how many images a partial copy has is known once it is loaded.
    """

    name = "tiny_imagenet"
    facts = Facts(image_shape=(3, 64, 64), num_train=100_000, num_test=10_000, num_classes=200)
    subfolder = "tiny-imagenet-200"
    archives = (
        Archive(
            path="tiny-imagenet-200.zip",
            urls=(
                "https://cs231n.stanford.edu/tiny-imagenet-200.zip",
                "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
            ),
            length=248_100_043,
            md5="90528d7ca1a48142e341f4ef8d21d0de",
        ),
    )
    mean = (0.4802, 0.4481, 0.3975)
    std = (0.2770, 0.2691, 0.2821)
    verified_by = "counts and decoding; the decoded images by SHA-256"
    allow_partial: bool = False
    """Use a copy that lacks images: good for trying things, not for results."""

    def read(self, folder: Path) -> Splits:
        listing = list_images(folder, num_classes=self.facts.num_classes)
        self._check_counts(listing)
        images = self._images(folder, listing)
        labels, num_train = np.array(listing.labels, np.uint8), listing.num_train
        return self.splits((images[:num_train], labels[:num_train]), (images[num_train:], labels[num_train:]))

    def _images(self, folder: Path, listing: Listing) -> Pixels:
        """The decoded images: kept beside the folder, or under its name in the cache folder, or decoded now."""
        name, shape = f"{folder.name}.decoded", (len(listing.files), *self.facts.image_shape)
        place = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
        places = [folder.with_name(name), cache_folder() / f"{place}-{name}"]
        for path in places:
            with suppress(WrongContent, StorageError):
                return np.frombuffer(read_sealed(path, kind=KIND, run=listing.fingerprint), np.uint8).reshape(shape)
        images, problems = np.empty(shape, np.uint8), []
        decode_into_(images, listing.files)
        for path in places:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_sealed(path, images.data.cast("B"), kind=KIND, run=listing.fingerprint)
                return images
            except (StorageError, OSError) as error:
                problems.append(str(error))
        told = f"decoded images could not be kept, the next run decodes again: {'; '.join(problems)}"
        warnings.warn(told, stacklevel=2)
        return images

    def contents(self, folder: Path) -> list[str]:
        listing = list_images(folder, num_classes=self.facts.num_classes)
        return [f"train, {listing.num_train:,} images", f"val, {listing.num_test:,} annotated images"]

    def _check_counts(self, listing: Listing) -> None:
        per_class = self.facts.num_train // self.facts.num_classes
        most = max(Counter(listing.labels[: listing.num_train]).values(), default=0)
        if most > per_class or listing.num_test > self.facts.num_test:
            raise DataError(
                f"more images than there should be: {most:,} training images in one class and {listing.num_test:,} "
                f"validation images, expected {per_class:,} and {self.facts.num_test:,}"
            )
        if not listing.num_train or not listing.num_test:
            raise DataError(f"{listing.num_train:,} training and {listing.num_test:,} validation images; both needed")
        kinds = (
            ("training", listing.num_train, self.facts.num_train),
            ("validation", listing.num_test, self.facts.num_test),
        )
        lacking = ", ".join(f"{found:,} of {all_:,} {kind} images" for kind, found, all_ in kinds if found < all_)
        if lacking and not self.allow_partial:
            raise DataError(
                f"partial: {lacking}. To try things with what is there: `--allow-partial` on `supple data check`, "
                "`--dataset.allow-partial` on `supple train`; it is recorded with the run"
            )
