"""Training of an image classifier, from a data set in memory to a checkpoint."""

from warpwise.apps.train.checkpoint import Checkpoint, CheckpointError
from warpwise.apps.train.networks import MODELS, build
from warpwise.apps.train.settings import DTYPES, Settings
from warpwise.apps.train.trainer import Epoch, NonFiniteLoss, Trainer

__all__ = [
    "DTYPES", "MODELS", "Checkpoint", "CheckpointError", "Epoch", "NonFiniteLoss", "Settings", "Trainer",
    "build",
]  # fmt: skip
