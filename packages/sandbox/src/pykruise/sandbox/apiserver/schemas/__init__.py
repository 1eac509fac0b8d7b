"""The stages behind `schema.py`: one module each for checking, defaulting, pruning and the schema itself."""
