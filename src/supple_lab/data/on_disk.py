"""Datasets in files: laid out as their official archives unpack, verified each time they are read."""

from abc import abstractmethod
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from supple_lab.data.archive import Archive
from supple_lab.data.base import DataError, Dataset, Examples, Splits
from supple_lab.data.folder import VARIABLE, data_folders

Pixels = NDArray[np.uint8]


class OnDisk(Dataset):
    """A dataset whose files the user has or gets with `supple data get`; a frozen dataclass in every subclass."""

    subfolder: ClassVar[str]  # of a data folder, as the official archive unpacks
    archives: ClassVar[tuple[Archive, ...]]
    mean: ClassVar[tuple[float, ...]]  # of each channel, of values in [0, 1]; for both splits
    std: ClassVar[tuple[float, ...]]
    verified_by: ClassVar[str]

    def check_here(self) -> None:
        self.find()

    def load(self, device: torch.device) -> Splits:
        folder = self.find()
        try:
            return self.read(folder).to(device)
        except DataError as error:
            advice = f"To get it whole: supple data get {self.name} --data {self.root_of(folder)}"
            raise DataError(f"{self.name}: {error}\n{advice}") from error

    def find(self) -> Path:
        """The first data folder's subfolder that exists."""
        roots = data_folders()
        for root in roots:
            if self.is_in(root):
                return root / self.subfolder
        raise DataError(
            f"{self.name} is not here. Looked for {self.subfolder} in {' and in '.join(map(str, roots))}.\n"
            f"If you have it, name the folder that holds {self.subfolder} with --data DIR or ${VARIABLE}. "
            f"If not: supple data get {self.name}"
        )

    def is_in(self, root: Path) -> bool:
        """Whether a data folder has something of this dataset; an empty subfolder hides no full one."""
        folder = root / self.subfolder
        try:
            return folder.is_dir() and any(folder.iterdir())
        except PermissionError:
            return True  # whoever reads it will say so

    def root_of(self, folder: Path) -> Path:
        """The data folder that a subfolder lies in."""
        return folder.parents[len(Path(self.subfolder).parts) - 1]

    @abstractmethod
    def read(self, folder: Path) -> Splits:
        """Both splits from a folder, verified; DataError says what is wrong there."""

    @abstractmethod
    def contents(self, folder: Path) -> list[str]:
        """What the folder holds, a line each, without a judgement."""

    def splits(self, train: tuple[Pixels, Pixels], test: tuple[Pixels, Pixels]) -> Splits:
        """Images and labels with the dataset's normalisation."""
        return Splits(self._examples(*train), self._examples(*test), num_classes=self.facts.num_classes)

    def _examples(self, images_NCHW: Pixels, labels_N: Pixels) -> Examples:
        return Examples(
            images_NCHW=torch.from_numpy(images_NCHW),
            labels_N=torch.from_numpy(labels_N.astype(np.int64)),
            mean_C11=torch.tensor(self.mean).view(-1, 1, 1),
            std_C11=torch.tensor(self.std).view(-1, 1, 1),
        )


def sizes(folder: Path) -> list[str]:
    """The files of a folder with their lengths."""
    try:
        files = sorted(path for path in folder.iterdir() if path.is_file())
        return [f"{path.name}, {path.stat().st_size:,} bytes" for path in files]
    except OSError as error:
        raise DataError(f"{folder}: cannot be read: {error.strerror}") from error
