"""CleanRL's settings of C51 on CartPole, for us and for the peers. No imports: all read it."""

HIDDEN = (120, 84)
ATOMS = 101
SUPPORT = (-100.0, 100.0)
GAMMA = 0.99
BATCH = 128
STEPS_PER_UPDATE = 10
TARGET_EVERY = 500
REPLAY = 10_000
LEARNING_RATE = 2.5e-4
WARM_UP = 2_000
STEPS = 20_000
