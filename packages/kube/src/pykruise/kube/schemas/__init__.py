"""Types of objects: schemas, definitions, conversion between versions."""
