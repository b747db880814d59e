//! The numbers of the kernels, the features and the model families, against other implementations: burn's own operations,
//! `transformers` and the published packages (`tests/oracles`), on the CPU and on a Vulkan adapter.

mod activation;
mod attention_decoder;
mod bert;
mod decoder;
mod decoder_gpu;
mod decoder_texts;
mod epilogue;
mod fastconformer;
mod fastspeech2;
mod features;
mod fused_attention;
mod gemv;
mod gguf;
mod kernels;
mod kokoro;
mod launches;
mod pocket_tts;
mod pocket_tts_gpu;
mod product;
mod pytorch_files;
mod qwen3_asr;
mod sentiment;
mod silero;
mod smart_turn;
mod sortformer;
mod speech_kernels;
mod vocos;
mod voice;
mod whisper;
mod whisper_files;
mod whisper_forms;
mod whisper_gpu;
mod whisper_short;
