"""Reinforcement learning: environments that show frames, the replay that keeps them, the rules DQN learns by."""
