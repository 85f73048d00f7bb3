"""Data for real programs, made up on this machine: small files in the formats that the programs read.

Each maker writes below a folder and is told nothing else, so that the same data comes of it every time.
numpy and Pillow are imported where they are needed: the table of programs can be read without them.
"""

from __future__ import annotations

import importlib
import json
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

SEED = 1


def _random() -> Any:
    import numpy

    return numpy.random.default_rng(SEED)


def _picture(path: Path, pixels: Any) -> None:
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def _noise(random: Any, *shape: int) -> Any:
    return random.integers(0, 256, shape, dtype="uint8")


def classes(folder: Path) -> None:
    """32 pictures of 64 by 64 in the folders of 4 classes, in each of `train`, `val` and `validation`."""
    random = _random()
    for part in ("train", "val", "validation"):
        for number in range(32):
            _picture(folder / part / f"class{number % 4}" / f"{number}.png", _noise(random, 64, 64, 3))


def captions(folder: Path) -> None:
    """16 pictures of 64 by 64, and in `captions.csv` for each its place and three words."""
    random = _random()
    lines = ["filepath\ttitle"]
    for number in range(16):
        _picture(folder / f"{number}.png", _noise(random, 64, 64, 3))
        words = " ".join(f"word{word}" for word in random.integers(0, 50, 3))
        lines.append(f"{folder.name}/{number}.png\t{words}")
    (folder / "captions.csv").write_text("\n".join(lines) + "\n")


def masks(folder: Path) -> None:
    """20 pictures of 64 by 64 in `imgs`, and for each a mask of two values in `masks`."""
    random = _random()
    for number in range(20):
        _picture(folder / "imgs" / f"{number}.png", _noise(random, 64, 64, 3))
        _picture(folder / "masks" / f"{number}.png", (_noise(random, 64, 64) % 2) * 255)


def digits(folder: Path) -> None:
    """256 pictures to train and 128 to test, 28 by 28, with labels, in the files of MNIST."""
    folder.mkdir(parents=True, exist_ok=True)
    random = _random()
    for part, count in (("train", 256), ("t10k", 128)):
        head = struct.pack(">iiii", 0x803, count, 28, 28)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(head + _noise(random, count, 28, 28).tobytes())
        labels = struct.pack(">ii", 0x801, count) + (_noise(random, count) % 10).tobytes()
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(labels)


def cifar10(folder: Path) -> None:
    """320 pictures to train and 100 to test, 32 by 32, in the pickles of CIFAR-10."""
    _pickled(folder, {**{f"data_batch_{n}": 64 for n in range(1, 6)}, "test_batch": 100}, "labels", 10)


def cifar100(folder: Path) -> None:
    """320 pictures to train and 100 to test, 32 by 32, in the pickles of CIFAR-100."""
    _pickled(folder, {"train": 320, "test": 100}, "fine_labels", 100)


def _pickled(folder: Path, batches: dict[str, int], label: str, classes: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    random = _random()
    for name, count in batches.items():
        entry = {"data": _noise(random, count, 3072), label: random.integers(0, classes, count).tolist()}
        (folder / name).write_bytes(pickle.dumps(entry))
    names = [f"class{number}" for number in range(classes)]
    for name in ("batches.meta", "meta"):
        (folder / name).write_bytes(pickle.dumps({"label_names": names, "fine_label_names": names}))


UNCHECKED = '''\
"""torchvision takes data sets as they are: made-up ones have other digests than the files that it knows."""
import importlib.abc
import importlib.machinery
import os
import sys


class Unchecked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != "torchvision.datasets.utils":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        run = spec.loader.exec_module

        def loaded(module):
            run(module)
            module.check_integrity = lambda path, md5=None: os.path.isfile(path)

        spec.loader.exec_module = loaded
        return spec


sys.meta_path.insert(0, Unchecked())
'''


def unchecked(folder: Path) -> None:
    """A `sitecustomize.py` by which torchvision takes these files though their digests are others."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(UNCHECKED)


def text(folder: Path) -> None:
    """40 lines of 8 words out of 50, in `input.txt`, `train.txt`, `valid.txt` and `test.txt`."""
    folder.mkdir(parents=True, exist_ok=True)
    random = _random()
    for name in ("input.txt", "train.txt", "valid.txt", "test.txt"):
        lines = [" ".join(f"w{number}" for number in random.integers(0, 50, 8)) for _ in range(40)]
        start = "O God, O God!"  # minGPT goes on from it, so its letters must be there
        (folder / name).write_text("\n".join([start, *lines]) + "\n")


def tokens(folder: Path) -> None:
    """4096 tokens of 16 bits out of 60, in `train.bin` and `val.bin`, and `meta.pkl`."""
    folder.mkdir(parents=True, exist_ok=True)
    random = _random()
    for name in ("train.bin", "val.bin"):
        random.integers(0, 60, 4096).astype("uint16").tofile(folder / name)
    (folder / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": 60}))


def boxes(folder: Path) -> None:
    """8 pictures of 64 by 64 to train and 8 to test, two boxes in each, as COCO has them."""
    random = _random()
    for part in ("train", "val"):
        images: list[dict[str, Any]] = []
        things: list[dict[str, Any]] = []
        for number in range(8):
            name = f"{number:012d}.jpg"
            _picture(folder / f"{part}2017" / name, _noise(random, 64, 64, 3))
            images.append({"id": number, "file_name": name, "height": 64, "width": 64})
            for _ in range(2):
                corner = random.integers(0, 32, 2).tolist()
                thing = {"id": len(things), "image_id": number, "category_id": 1, "iscrowd": 0}
                things.append({**thing, "bbox": [*corner, 20, 20], "area": 400})
        told = {"images": images, "annotations": things, "categories": [{"id": 1, "name": "thing"}]}
        (folder / "annotations").mkdir(exist_ok=True)
        (folder / "annotations" / f"instances_{part}2017.json").write_text(json.dumps(told))


def weights(folder: Path) -> None:
    """Random weights of a ResNet-18 where `torch.hub` keeps what it fetched: `TORCH_HOME` is the folder."""
    torch: Any = importlib.import_module("torch")
    models: Any = importlib.import_module("torchvision.models")
    torch.manual_seed(0)
    kept = folder / "hub" / "checkpoints"
    kept.mkdir(parents=True, exist_ok=True)
    name = models.ResNet18_Weights.IMAGENET1K_V1.url.rpartition("/")[2]
    torch.save(models.resnet18().state_dict(), kept / name)


MAKERS: dict[str, Callable[[Path], None]] = {
    made.__name__: made
    for made in (boxes, captions, cifar10, cifar100, classes, digits, masks, text, tokens, unchecked, weights)
}
