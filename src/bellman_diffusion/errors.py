"""The errors a user may meet. Each message names the cause and the remedy."""


class BellmanError(Exception):
    """Something the user can mend; the command line prints it and exits with code 2."""


class InvalidInputError(BellmanError, ValueError):
    """Data or settings that cannot be used."""


class TrainingDivergedError(BellmanError, FloatingPointError):
    """The loss became infinite or not a number."""


class SamplingFailedError(BellmanError, FloatingPointError):
    """Too many paths of the sampler were lost."""


class CheckpointError(BellmanError, ValueError):
    """A saved file is damaged, or of another kind or version."""


class DataMissingError(BellmanError, FileNotFoundError):
    """A public data file is neither here nor to be had."""
