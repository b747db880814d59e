"""Whisper made small: a published checkpoint whose windows are as long as the speech, with weights of 4 bits."""
