"""What is timed, for us and for the peers alike. No imports: both environments read it."""

DIM = 2
WIDTH = 128
DEPTH = 3
BATCH = 256
EPSILON = 0.1
STEP_SIZE = 0.1
SAMPLER_STEPS = 300
# (width, paths): the preset's networks from one path to thousands, and a smaller network.
SAMPLERS = ((64, 64), (128, 1), (128, 32), (128, 256), (128, 2048))
# (width, batch)
TRAININGS = ((64, 64), (128, 64), (128, 256), (128, 512))
REPEATS = 5


def network_flop(width: int) -> int:
    """Multiplications and additions of both networks for one point."""
    hidden = 2 * (DIM * width + (DEPTH - 1) * width * width)
    return (hidden + 2 * width * 1) + (hidden + 2 * width * DIM)
