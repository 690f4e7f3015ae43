"""The version of this package; pyproject.toml and the wheel have the same."""

VERSION = "0.2.0"
