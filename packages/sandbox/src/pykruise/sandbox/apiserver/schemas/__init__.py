"""The stages behind `schema.py`: a module each for checking, defaulting, pruning and the schema itself."""
