"""The recipe of the voice activity detector: `python -m recipes.vad --help`."""
