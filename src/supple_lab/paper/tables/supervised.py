"""Best settings of standard supervised learning (appendix F.6, Table 10); all with Adam at 1e-3 (section 5.3).

The vanilla network, which has nothing to tune, has no row in the paper.
"""

from supple.methods.activations import UseAID, UseDropout
from supple.methods.l2 import L2
from supple.methods.vanilla import Vanilla
from supple_lab.paper.tables.search_space import ADAM_HIGH
from supple_lab.paper.tables.setting import Table, under

SUPERVISED: Table = {
    "cnn": under(
        ADAM_HIGH,
        (
            Vanilla(),
            L2(strength=1e-2),
            UseDropout(drop_positive=0.3),
            UseAID(relu_prob=0.95),
        ),
    ),
    "resnet18": under(
        ADAM_HIGH,
        (
            Vanilla(),
            L2(strength=1e-5),
            UseDropout(drop_positive=0.1),
            UseAID(relu_prob=0.8),
        ),
    ),
    "vgg16": under(
        ADAM_HIGH,
        (
            Vanilla(),
            L2(strength=1e-5),
            UseDropout(drop_positive=0.1),
            UseAID(relu_prob=0.9),
        ),
    ),
}
