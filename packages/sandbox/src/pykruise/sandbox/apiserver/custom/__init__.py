"""Custom resources: definitions, schemas, expressions, conversion."""
