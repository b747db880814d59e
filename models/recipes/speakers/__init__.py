"""Speaker embeddings: a small ECAPA-TDNN, trained to tell readers apart."""
