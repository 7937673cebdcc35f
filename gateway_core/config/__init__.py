"""The declarative config: its models, its loading, its faults and its schema."""
