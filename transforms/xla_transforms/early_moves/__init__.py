"""Moves of a model that can come before its optimizer is built: in one block, or where the model is made."""

from xla_transforms.early_moves.block import Block
from xla_transforms.early_moves.maker import Maker

__all__ = ["Block", "Maker"]
