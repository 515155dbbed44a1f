"""The paper's 17 Atari games, with the scores of a random and of a human player by which results are normalised.

The scores are those of the Agent57 table that dqn_zoo, rliable and Dopamine share. They come from games that start with
up to 30 idle frames and have no sticky actions, and the human scores of Mnih et al. 2015 differ: do not mix the two.
"""

GAMES = {  # scores that stand for 0 and 1 of the human-normalised score
    "Seaquest": (68.4, 42054.7),
    "DemonAttack": (152.1, 1971.0),
    "SpaceInvaders": (148.0, 1668.7),
    "Qbert": (163.9, 13455.0),
    "DoubleDunk": (-18.6, -16.4),  # 2.2 points apart: normalised scores swing by whole units
    "MsPacman": (307.3, 6951.6),
    "Enduro": (0.0, 860.5),
    "BeamRider": (363.9, 16926.5),
    "WizardOfWor": (563.5, 4756.5),
    "Jamesbond": (29.0, 302.8),
    "RoadRunner": (11.5, 7845.0),
    "Asterix": (210.0, 8503.3),
    "Pong": (-20.7, 14.6),
    "Zaxxon": (32.5, 9173.3),
    "YarsRevenge": (3092.9, 54576.9),
    "Breakout": (1.7, 30.5),
    "IceHockey": (-11.2, 0.9),
}
