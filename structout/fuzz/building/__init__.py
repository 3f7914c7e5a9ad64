"""JSON values that satisfy a schema, by construction as far as that is simple."""
