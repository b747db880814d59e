//! A web service that embeds the engine: `cargo run --release --example axum_service`, and then
//! `curl --data-binary @talk.mp3 http://127.0.0.1:3000/`

use std::io::Cursor;

use auricle_engine::audio::{AudioStream, OpenOptions};
use auricle_engine::{Engine, EngineOptions, Error, TranscribeOptions, Transcript};
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::open(EngineOptions::default())?;
    engine.load(&TranscribeOptions::default()).await?;
    engine.warm_up().await?;
    let service = Router::new().route("/", post(transcribe)).layer(DefaultBodyLimit::max(1 << 30)).with_state(engine);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, service).await?)
}

/// A client that goes away ends its transcription, since the future is dropped.
async fn transcribe(State(engine): State<Engine>, body: Bytes) -> Result<Json<Transcript>, (StatusCode, String)> {
    let audio = AudioStream::from_source(Cursor::new(body), &OpenOptions::default()).map_err(refuse)?;
    engine.transcribe(audio, &TranscribeOptions::default()).await.map(Json).map_err(refuse)
}

fn refuse(error: Error) -> (StatusCode, String) {
    let status = match error {
        Error::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
        Error::UnsupportedMedia(_) | Error::NoAudioTrack(_) | Error::FfmpegMissing(_) => StatusCode::BAD_REQUEST,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, error.to_string())
}
