"""Values for each keyword of JSON Schema, by the kind of instance that it restricts."""
