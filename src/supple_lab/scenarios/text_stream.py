"""Text stream: at each stage other windows of a text, written in another alphabet or from another package."""

from dataclasses import dataclass, replace
from typing import Literal

import torch

from supple_lab.data.base import Facts, Splits
from supple_lab.errors import at_least
from supple_lab.scenarios.base import Scenario, Stage, Unsuitable
from supple_lab.scenarios.class_incremental import of_classes
from supple_lab.streams import stream

NUM_VALUES = 256  # of a byte


@dataclass(frozen=True, kw_only=True)
class TextStream(Scenario):
    """``num_images`` windows drawn again at each stage; one optimizer throughout. Score the online loss.

    By "vocabulary" windows come from the whole text, and each stage gives the bytes new values by a permutation of its
    own. By "package" they come from one part of the text, each in turn in an order of the seed. A test has other
    windows of the same kind.
    """

    name = "text_stream"
    takes_text = True
    change: Literal["vocabulary", "package"] = "vocabulary"
    num_stages: int = 32
    epochs: int = 1
    batch_size: int = 16
    num_images: int = 4096  # windows
    num_tested: int = 256  # windows of each test, and of the training windows scored at a stage's end

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(1, self, "num_tested")

    def check(self, facts: Facts) -> None:
        super().check(facts)
        if self.num_tested > facts.num_test:
            raise Unsuitable(f"TextStream.num_tested is {self.num_tested}, but the dataset has {facts.num_test}.")

    def stage(self, index: int, splits: Splits, seed: int) -> Stage:
        train, test = splits.train, splits.test
        if self.change == "package":
            order = torch.randperm(int(train.labels_N.max()) + 1, generator=stream(seed, "packages"))
            own = order[index % len(order)].view(1)
            train, test = of_classes(train, own), of_classes(test, own)
        values = torch.randperm(NUM_VALUES, generator=stream(seed, "vocabulary", index))
        sets = []
        for name, number, examples in (("windows", self.num_images, train), ("tests", self.num_tested, test)):
            if number > len(examples):
                raise Unsuitable(
                    f"TextStream: stage {index + 1} has {len(examples)} windows for {number}; choose a smaller "
                    f"{'num_images' if name == 'windows' else 'num_tested'}."
                )
            chosen = torch.randperm(len(examples), generator=stream(seed, name, index))[:number]
            drawn = examples.subset(chosen)
            if self.change == "vocabulary":
                images = drawn.images_NCHW
                drawn = replace(drawn, images_NCHW=values.to(images.device, torch.uint8)[images.long()])
            sets.append(drawn)
        return Stage(sets[0], self.epochs, self.batch_size, {"test": sets[1]}, num_scored=self.num_tested)
