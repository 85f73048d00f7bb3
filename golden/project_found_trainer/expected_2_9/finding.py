"""Finds a trainer by the name of its class."""
import importlib
import os
import pkgutil

from base import Trainer


def find_trainer(name):
    found = None
    for module in pkgutil.iter_modules([os.path.dirname(os.path.abspath(__file__))]):
        if module.name.endswith("_trainer"):
            found = getattr(importlib.import_module(module.name), name, found)
    assert issubclass(found, Trainer), f"{name} is no trainer"
    return found
