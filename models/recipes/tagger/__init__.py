"""Recipe of the tagger: a small BERT that labels names, places, organisations and other personal words."""
