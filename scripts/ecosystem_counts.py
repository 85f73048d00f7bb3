"""The packages that scripts/ecosystem migrates, and the counts recorded of them, a file each."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

from counting import Counts
from sources import Package

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tests" / "ecosystem"
PAGE = ROOT / "docs" / "ecosystem.md"

PACKAGES = (
    Package("basicsr", "1.4.2", "b89b595a87ef964cda9913b4d99380ddb6554c965577c0c10cb7b78e31301e87"),
    Package("cleanrl", "0.4.8", "947a5b4c006f43cf90be03b90c5345d118468260c7269c11e5d795954a2effa5"),
    Package(
        "denoising-diffusion-pytorch", "2.3.4",
        "c6950c09367e9d05992d44bdeacc578803c64f3864205da959cf95c2774780f4",
    ),
    Package("espnet", "202511", "280573dab2d4a0c669f0801cb7b07fa7732dd53138990cc80519e53a72412d4c"),
    Package("nnunetv2", "2.8.1", "63646638f1bbbaaa9f2a7f92dda44b992581435e45556529f0d8190f6c80dfcc"),
    Package("open-clip-torch", "3.3.0", "904b1a9f909df8281bb3de60ab95491cd2994a509177ea4f9d6292a84fe24d6d"),
    Package("OpenNMT-py", "3.5.1", "8af6693ff0be0623683a5a9773b8d55b377fc14073f4897b6e6de3d482d338b2"),
    Package("realesrgan", "0.3.0", "0d36da96ab9f447071606e91f502ccdfb08f80cc82ee4f8caf720c7745ccec7e"),
    Package("TTS", "0.22.0", "b91119da7ff2ae7b3dae7328edf9af4db3b48c40eb4ce15d11ed8f5ee9bd7086"),
    Package("ultralytics", "8.4.190", "c7a0ebb21d10f1de98682b6a4dc22bc0d1d0634b9398c086bd03b1e5bf40cbc3"),
    Package("yolov5", "7.0.14", "ba1b5012fc191b1252d4c532bd2ba9da9dd53207bbed2dc2387740e18d8815e6"),
    Package("yolox", "0.3.0", "1b8ee68846434408c40074f0806259fe3b9387181e562dbc435ea666533d8d08"),
)  # fmt: skip
CHECKOUTS = {
    "detr": "facebookresearch/detr 29901c5",
    "examples": "pytorch/examples 77f55b9",
    "mae": "facebookresearch/mae efb2a80",
    "minGPT": "karpathy/minGPT 37baab7",
    "nanoGPT": "karpathy/nanoGPT 3adf61e",
    "timm": "huggingface/pytorch-image-models 0727833",
}
"""The commits of those that are given by folder and recorded, by the names to give them."""
SMALL = ("basicsr", "denoising-diffusion-pytorch", "open-clip-torch", "realesrgan", "yolox")

_TOLD = ("files", "parsed", "changed", "edits")


def summary(counts: Counts) -> dict[str, Any]:
    """What is recorded of a package: its totals, and the number of changes and findings by file and rule."""
    return {
        **{name: getattr(counts, name) for name in _TOLD},
        "faults": {name: places for name, places in counts.faults.items() if places},
        "changes": {path: dict(sorted(c.items())) for path, c in sorted(counts.changes_in.items())},
        "findings": {path: dict(sorted(c.items())) for path, c in sorted(counts.findings_in.items())},
    }


def written(counts: Counts) -> None:
    """Record the counts of a package."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{counts.label}.json").write_text(_text(summary(counts)))


def compared(counts: Counts) -> list[str]:
    """How the counts of a package differ from those recorded, as the lines of a diff."""
    return compared_texts(counts.label, FOLDER / f"{counts.label}.json", _text(summary(counts)))


def compared_texts(label: str, path: Path, now: str) -> list[str]:
    """How what is said of a source now differs from what is recorded in a file."""
    if not path.exists():
        return [f"{label}: nothing is recorded of it"]
    old, new = path.read_text().splitlines(), now.splitlines()
    return list(difflib.unified_diff(old, new, f"{label}, recorded", f"{label}, now", lineterm=""))


def recorded() -> dict[str, dict[str, Any]]:
    """What is recorded, by package."""
    paths = sorted(FOLDER.glob("*.json"), key=lambda path: path.stem.lower())
    return {path.stem: json.loads(path.read_text()) for path in paths}


def table(summaries: dict[str, dict[str, Any]]) -> str:
    """A row a package, as markdown."""
    rows = [["source", *_TOLD, "changes", "findings", "faults"], ["---", *["---:"] * (len(_TOLD) + 3)]]
    for name, told in summaries.items():
        sums = [sum(n for c in told[kind].values() for n in c.values()) for kind in ("changes", "findings")]
        faults = sum(map(len, told["faults"].values()))
        rows.append([labelled(name), *(str(n) for n in (*(told[t] for t in _TOLD), *sums, faults))])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def labelled(name: str) -> str:
    """A source with its release or its commit."""
    return next((package.label for package in PACKAGES if package.name == name), CHECKOUTS.get(name, name))


def _text(told: dict[str, Any]) -> str:
    return json.dumps(told, indent=1, ensure_ascii=False) + "\n"
