"""The version of this package, which pyproject.toml and the wheel say, too."""

__all__ = ["VERSION"]

VERSION = "0.2.0"
