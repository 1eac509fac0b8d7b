"""Typed models of custom resources: generated from a CustomResourceDefinition, and read without loss.

crd.yaml ──▶ `pykruise-kube models` (generate.py) ──▶ a module of Model classes
a document ──▶ parse() ──▶ a Model ──▶ document() ──▶ the same document
"""

from pykruise.kube.models.generate import GenerationError, models_module
from pykruise.kube.models.model import ListMapKeys, Model, ModelMetadata, document, list_map_keys, parse

__all__ = [
    "GenerationError",
    "ListMapKeys",
    "Model",
    "ModelMetadata",
    "document",
    "list_map_keys",
    "models_module",
    "parse",
]
