"""A speech synthesiser trained from scratch: FastSpeech2 acoustic model, Vocos vocoder, letters to phones."""
