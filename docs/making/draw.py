"""Draw every picture of the documentation: python docs/making/draw.py [NAME ...]"""

import sys

import aid_picture
import atari_picture
import gap_picture
import hook_picture
import p_picture
import quickstart_picture
import roc_picture
import run_picture
import tree_picture
import unit_picture
import verdict_picture
from shade import draw_both

PICTURES = {
    "aid": aid_picture.draw,
    "atari": atari_picture.draw,
    "gap": gap_picture.draw,
    "hooks": hook_picture.draw,
    "inside": quickstart_picture.draw_inside,
    "quickstart": quickstart_picture.draw_accuracy,
    "roc": roc_picture.draw,
    "run": run_picture.draw,
    "tree": tree_picture.draw,
    "units": unit_picture.draw,
    "verdicts": verdict_picture.draw,
    "which_p": p_picture.draw,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        draw_both(name, PICTURES[name])
