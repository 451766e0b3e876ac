"""The entries, by family and in one table."""

from __future__ import annotations

from collections.abc import Mapping

from zoo.entry import Entry
from zoo.families import (
    blocks,
    classifiers,
    detection,
    diffusion,
    encoders,
    experts,
    graphs,
    language,
    multimodal,
    segmentation,
    series,
    speech,
    tables,
    vision,
)
from zoo.packages import with_torchvision

MODULES = (
    language,
    experts,
    encoders,
    multimodal,
    speech,
    vision,
    classifiers,
    detection,
    segmentation,
    diffusion,
    tables,
    series,
    graphs,
    blocks,
)
FAMILIES: Mapping[str, Mapping[str, Entry]] = {each.__name__.rpartition(".")[2]: each.ENTRIES for each in MODULES}
ENTRIES: Mapping[str, Entry] = {name: entry for family in FAMILIES.values() for name, entry in family.items()}
with_torchvision()  # transformers and timm import it where it is installed
