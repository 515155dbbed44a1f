"""TinyImageNet: 110,000 photographs of 64x64 pixels in 200 classes (Stanford CS231n), as folders of JPEG files."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from supple_lab.data.archive import Archive
from supple_lab.data.base import DataError, Facts, Splits
from supple_lab.data.decoded_cache import read_or_decode
from supple_lab.data.folder import cache_folder
from supple_lab.data.jpeg_folders import Listing, decode_into_, list_images
from supple_lab.data.on_disk import OnDisk


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
        images = read_or_decode(
            self._caches(folder),
            fingerprint=listing.fingerprint,
            shape=(len(listing.files), *self.facts.image_shape),
            decode_into_=lambda out: decode_into_(out, listing.files),
        )
        labels, num_train = np.array(listing.labels, np.uint8), listing.num_train
        return self.splits((images[:num_train], labels[:num_train]), (images[num_train:], labels[num_train:]))

    def contents(self, folder: Path) -> list[str]:
        listing = list_images(folder, num_classes=self.facts.num_classes)
        return [f"train, {listing.num_train:,} images", f"val, {listing.num_test:,} annotated images"]

    def _check_counts(self, listing: Listing) -> None:
        per_class = self.facts.num_train // self.facts.num_classes
        if (most := listing.most_in_a_class) > per_class or listing.num_test > self.facts.num_test:
            raise DataError(
                f"more images than there should be: {most:,} training images in one class and {listing.num_test:,} "
                f"validation images, expected {per_class:,} and {self.facts.num_test:,}"
            )
        if not listing.num_train or not listing.num_test:
            raise DataError(f"{listing.num_train:,} training and {listing.num_test:,} validation images; both needed")
        if not self.allow_partial and (partial := self._partial(listing)):
            raise DataError(
                f"partial: {partial}. To try things with what is there: `--allow-partial` on `supple data check`, "
                "`--dataset.allow-partial` on `supple train`; it is recorded with the run"
            )

    def _partial(self, listing: Listing) -> str:
        kinds = (
            ("training", listing.num_train, self.facts.num_train),
            ("validation", listing.num_test, self.facts.num_test),
        )
        return ", ".join(f"{found:,} of {all_:,} {kind} images" for kind, found, all_ in kinds if found < all_)

    def _caches(self, folder: Path) -> list[Path]:
        """Where decoded images may lie: beside the folder, or under its name in the cache folder."""
        name = f"{folder.name}.decoded"
        place = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
        return [folder.with_name(name), cache_folder() / f"{place}-{name}"]
