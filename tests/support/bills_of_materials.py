"""Bills of materials compared with the schema of CycloneDX."""

__all__ = ["list_schema_violations"]


def list_schema_violations(text: str) -> object:
    """Violations of CycloneDX 1.6 in a bill of materials; None if it has none."""
    # Grammars that the validator builds when it is imported take two seconds in every process that collects tests.
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    return JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
