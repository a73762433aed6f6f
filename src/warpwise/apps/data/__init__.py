"""Labelled images for training: IDX files, where they are found, and how they are downloaded."""

from warpwise.apps.data.idx import DataError, read_idx
from warpwise.apps.data.images import Images, ImageSet
from warpwise.apps.data.sets import NAMES, load

__all__ = ["NAMES", "DataError", "ImageSet", "Images", "load", "read_idx"]
