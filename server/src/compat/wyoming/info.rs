//! The answer to `describe`: the models that recognise, and the voices.

use auricle_engine::{Error, SpeakOptions};
use serde_json::{Value, json};

use super::Wyoming;
use crate::billing::{PRICES, ProductKind};
use crate::checkpoints::HUB;

/// The name of both programs.
pub const PROGRAM: &str = "auricle";

/// The service by its programs. Models and voices that are pulled while it runs are among them.
pub fn info(state: &Wyoming) -> Value {
    let models = models(state);
    let voices = voices(state);
    json!({
        "asr": [program(state, "Speech to text", json!({
            "models": models,
            "supports_transcript_streaming": false,
            // The client decides when a command has ended.
            "requires_external_vad": true,
            "prefers_auto_gain_enabled": false,
            "prefers_noise_reduction_enabled": false,
        }))],
        "tts": if voices.is_empty() { json!([]) } else {
            json!([program(state, "Text to speech", json!({ "voices": voices, "supports_synthesize_streaming": true }))])
        },
        "handle": [], "intent": [], "wake": [], "mic": [], "snd": [],
    })
}

/// What the protocol says of everything that it names.
fn artifact(name: &str, attribution: Value, description: &str) -> Value {
    json!({
        "name": name, "attribution": attribution, "installed": true, "description": description,
        "version": env!("CARGO_PKG_VERSION"),
    })
}

/// An object with the fields of another, too.
fn with(mut object: Value, more: Value) -> Value {
    if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
        object.extend(more);
    }
    object
}

fn program(state: &Wyoming, description: &str, more: Value) -> Value {
    with(artifact(PROGRAM, ours(state), description), more)
}

fn ours(state: &Wyoming) -> Value {
    json!({ "name": "Auricle", "url": state.url.as_str() })
}

fn published(name: &str) -> Value {
    json!({ "name": name, "url": format!("{HUB}/{name}") })
}

fn models(state: &Wyoming) -> Vec<Value> {
    let recognisers = PRICES.iter().filter(|price| price.kind == ProductKind::Prerecorded);
    let model = |id: &str| {
        let choice = state.transcripts.catalog.choose(id).ok()?;
        let by = if choice.is_starter { ours(state) } else { published(&choice.source.published) };
        Some(with(artifact(id, by, id), json!({ "languages": choice.languages })))
    };
    recognisers.filter_map(|price| model(price.model)).collect()
}

fn voices(state: &Wyoming) -> Vec<Value> {
    let found = match state.speech.engine.as_ref().map(|engine| engine.voices(&SpeakOptions::default())) {
        Some(Ok(voices)) => voices,
        None | Some(Err(Error::NotPulled(_))) => Vec::new(),
        Some(Err(error)) => {
            tracing::error!(%error, "the voices could not be listed");
            Vec::new()
        }
    };
    let catalog = &state.transcripts.catalog;
    let voice = |voice: auricle_engine::VoiceInfo| {
        let pulled = catalog.voices().iter().find(|model| model.id == voice.model);
        let pulled = pulled.filter(|model| catalog.published_voice_path(model).is_some());
        let by = pulled.and_then(|model| model.published.as_deref()).map_or_else(|| ours(state), published);
        let description = format!("{} ({})", voice.id, voice.language);
        with(artifact(&voice.id, by, &description), json!({ "languages": [voice.language], "speakers": null }))
    };
    found.into_iter().map(voice).collect()
}
