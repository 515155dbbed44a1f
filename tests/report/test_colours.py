"""One colour per method, told apart by every reader."""

from itertools import combinations

import numpy as np
import pytest

from supple_lab.report.colours import DARK_PAGE, DASH_DOT, LIGHT_PAGE, LOOKS, look_of, look_of_repeat

METHODS_OF_THE_PAPER = [
    *("vanilla", "aid", "dropout", "drop_relu", "rrelu", "crelu", "fourier", "identity", "sigmoid", "tanh"),
    *("l2", "l2_init", "s_ewc", "shrink_perturb", "dash", "redo", "cbp", "full_reset"),
]

# Linear RGB as seen without the red or the green cones (Machado, Oliveira and Fernandes 2009, severity 1).
EYES = {
    "all cones": np.eye(3),
    "no red": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "no green": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour):
    srgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    light, dark = sorted((TO_XYZ[1] @ linear(one), TO_XYZ[1] @ linear(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def lab(colour, eye):
    x, y, z = np.cbrt(TO_XYZ @ np.clip(EYES[eye] @ linear(colour), 0, 1) / (TO_XYZ @ np.ones(3)))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_every_method_of_the_paper_has_a_look():
    assert set(LOOKS) == set(METHODS_OF_THE_PAPER)


def test_no_two_methods_share_a_colour_or_dashes_with_marker():
    for one, other in combinations(LOOKS.values(), 2):
        assert one.light != other.light
        assert one.dark != other.dark
        assert (one.dashes, one.marker) != (other.dashes, other.marker)


@pytest.mark.parametrize("method", METHODS_OF_THE_PAPER)
def test_lines_have_contrast_with_the_page(method):
    assert contrast(LOOKS[method].light, LIGHT_PAGE) >= 3
    assert contrast(LOOKS[method].dark, DARK_PAGE) >= 3


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("page", ["light", "dark"])
def test_the_three_methods_of_the_demo_are_far_apart_for_every_eye(eye, page):
    colours = [getattr(LOOKS[name], page) for name in ("vanilla", "dropout", "aid")]
    for one, other in combinations(colours, 2):
        assert np.linalg.norm(lab(one, eye) - lab(other, eye)) > 25  # ten times what the eye just notices


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("page", ["light", "dark"])
def test_aid_is_told_from_every_other_method_by_every_eye(eye, page):
    aid = lab(getattr(LOOKS["aid"], page), eye)
    others = [lab(getattr(look, page), eye) for name, look in LOOKS.items() if name != "aid"]
    assert min(np.linalg.norm(aid - other) for other in others) > 12


def test_aid_alone_stands_out():
    assert [name for name, look in LOOKS.items() if look.stands_out] == ["aid"]
    assert not any(look_of(f"unknown {i}").stands_out for i in range(100))


def test_an_unknown_method_keeps_its_look_between_machines():
    look = look_of("my_method")
    assert (look.light, look.dashes, look.marker) == ("#6b5b95", DASH_DOT, "star")
    assert len({look_of(f"method {i}") for i in range(50)}) > 25  # not all alike


def test_further_curves_of_a_method_keep_its_colour_but_not_its_dashes():
    looks = [look_of_repeat("aid", repeat) for repeat in range(4)]
    assert len({look.light for look in looks}) == 1
    assert len({look.dashes for look in looks}) == 4
    assert looks[0] == look_of("aid")
