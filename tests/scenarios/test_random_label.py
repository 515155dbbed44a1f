import torch

from supple_lab.data.batches import Batches
from supple_lab.data.digits import Digits
from supple_lab.scenarios.random_label import RandomLabel

SPLITS = Digits().load(torch.device("cpu"))


def test_images_stay_and_labels_change_from_stage_to_stage():
    scenario = RandomLabel(num_images=500)
    first, second = (scenario.stage(k, SPLITS, 0).train for k in (0, 1))
    assert torch.equal(first.images_NCHW, second.images_NCHW)
    # Independent uniform labels agree on a tenth of the images: 50, five sigma is 33.5.
    assert abs((first.labels_N == second.labels_N).sum().item() - 50) < 34


def test_stage_follows_from_seed_and_index_alone():
    scenario = RandomLabel()
    one, again, other = (scenario.stage(7, SPLITS, seed).train.labels_N for seed in (3, 3, 4))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_labels_are_per_image_and_uniform():
    labels = RandomLabel().stage(0, SPLITS, 0).train.labels_N
    counts = torch.bincount(labels, minlength=10)
    assert (counts - 160).abs().max() < 5 * (1600 * 0.1 * 0.9) ** 0.5
    truth = SPLITS.train.subset(torch.arange(1600)).labels_N
    assert (labels == truth).float().mean() < 0.15  # not a relabelling of classes


def test_paper_protocol_has_25_steps_an_epoch():
    stage = RandomLabel().stage(0, SPLITS, 0)
    assert len(list(Batches(stage.train, stage.batch_size, 0, 0, 0))) == 25
