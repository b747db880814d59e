//! The engine through its public API: audio, files, live sessions, language models, and what it does about invented text.

mod attention_decoder;
mod audio;
mod chat;
mod clause_speech;
mod devices;
mod diarizer;
mod embedding;
mod extractive;
mod frame_speech;
mod guards;
mod language_model;
mod listen;
mod model_memory;
mod qwen3_asr;
mod second_pass;
mod shares;
mod speakers;
mod speech;
mod spoken_text;
mod tagger;
mod transcribe;
mod word_times;
