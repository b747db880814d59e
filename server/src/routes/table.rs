//! The routing table.

use hyper::Method;

use super::route::{
    ResponseContent, Route, Surface, api, assemblyai, compat, doc, handler, open, page, script, undocumented, visitor,
};
use crate::api::{
    billing, chat, edits, health, models, openai, speakers, tags, transcript_search, transcripts, understanding,
    uploads, voices, webhooks,
};
use crate::auth::openid as auth_openid;
use crate::auth::{Access, SignedFor};
use crate::compat::assemblyai::{files, streaming};
use crate::compat::{asr_webservice, deepgram, mcp, telephony, whisper_server};
use crate::dashboard::{
    self, assets, audio, checkout, forgot, frame, join, keys, library, openid, operator, playground, presets,
    reference, share, sign_in, speakers as speaker_labels, stripe_events, team, usage, welcome,
};
use crate::live::{agent, realtime};

/// The query of both formats of subtitles.
const SUBTITLE_PARAMETERS: [&str; 5] =
    ["chars_per_caption", "max_line_width", "max_line_count", "highlight_words", "original"];

const UPLOAD: Access = Access::Signed(SignedFor::Upload);
const CHECKOUT: Access = Access::Signed(SignedFor::Checkout);

/// The table.
pub static ROUTES: &[Route] = &[
    api(
        Method::POST,
        "/v2/transcripts",
        handler!(transcripts::create, transcripts),
        doc("transcripts", "Create a transcript", ResponseContent::Json("Transcript"))
            .takes("CreateTranscript")
            .or_form("CreateTranscriptForm")
            .with(&["Idempotency-Key"])
            .fails(&[402, 404, 409, 413, 415, 422]),
    ),
    api(
        Method::GET,
        "/v2/transcripts",
        handler!(transcripts::list, transcripts),
        doc("transcripts", "List transcripts, newest first", ResponseContent::Json("TranscriptList"))
            .with(&["tag", "limit", "offset", "status"])
            .fails(&[422]),
    ),
    api(
        Method::GET,
        "/v2/transcripts/search",
        handler!(transcript_search::search, transcripts),
        doc("transcripts", "Find transcripts by what was said", ResponseContent::Json("TranscriptSearch"))
            .with(&["query", "limit", "after", "status", "search_language", "tag"])
            .fails(&[422]),
    ),
    api(
        Method::GET,
        "/v2/transcripts/{transcript_id}",
        handler!(transcripts::get, transcripts),
        doc("transcripts", "Get a transcript", ResponseContent::Json("Transcript"))
            .with(&["original"])
            .fails(&[404, 422]),
    ),
    api(
        Method::PATCH,
        "/v2/transcripts/{transcript_id}",
        handler!(edits::patch, transcripts),
        doc("transcripts", "Edit the title, the words and the speakers", ResponseContent::Json("EditedTranscript"))
            .takes("EditTranscript")
            .fails(&[404, 409, 413, 415, 422]),
    ),
    api(
        Method::DELETE,
        "/v2/transcripts/{transcript_id}",
        handler!(transcripts::delete, transcripts),
        doc("transcripts", "Delete a transcript for good", ResponseContent::Empty).fails(&[404]),
    ),
    api(
        Method::GET,
        "/v2/transcripts/{transcript_id}/tags",
        handler!(tags::get, transcripts),
        doc("transcripts", "Tags of a transcript", ResponseContent::Json("TranscriptTags")).fails(&[404]),
    ),
    api(
        Method::PUT,
        "/v2/transcripts/{transcript_id}/tags",
        handler!(tags::set, transcripts),
        doc("transcripts", "Give a transcript these tags and no others", ResponseContent::Json("TranscriptTags"))
            .takes("SetTags")
            .fails(&[400, 404, 413, 415, 422]),
    ),
    api(
        Method::GET,
        "/v2/tags",
        handler!(tags::list, transcripts),
        doc(
            "transcripts",
            "Tags of the account, with the number of their transcripts",
            ResponseContent::Json("TagList"),
        ),
    ),
    api(
        Method::GET,
        "/v2/transcripts/{transcript_id}/sentences",
        handler!(transcripts::sentences, transcripts),
        doc("transcripts", "Timed sentences", ResponseContent::Json("Sentences"))
            .with(&["original"])
            .fails(&[404, 409, 422]),
    ),
    api(
        Method::GET,
        "/v2/transcripts/{transcript_id}/paragraphs",
        handler!(transcripts::paragraphs, transcripts),
        doc("transcripts", "Timed paragraphs", ResponseContent::Json("Paragraphs"))
            .with(&["original"])
            .fails(&[404, 409, 422]),
    ),
    api(
        Method::GET,
        "/v2/transcripts/{transcript_id}/word-search",
        handler!(transcripts::word_search, transcripts),
        doc("transcripts", "Occurrences of words and phrases", ResponseContent::Json("WordSearch"))
            .with(&["words", "original"])
            .fails(&[400, 404, 409, 422]),
    ),
    api(
        Method::GET,
        "/v2/transcripts/{transcript_id}/srt",
        handler!(transcripts::srt, transcripts),
        doc("transcripts", "SubRip subtitles", ResponseContent::Text("application/x-subrip"))
            .with(&SUBTITLE_PARAMETERS)
            .fails(&[404, 409, 422]),
    ),
    api(
        Method::GET,
        "/v2/transcripts/{transcript_id}/vtt",
        handler!(transcripts::vtt, transcripts),
        doc("transcripts", "WebVTT subtitles", ResponseContent::Text("text/vtt"))
            .with(&SUBTITLE_PARAMETERS)
            .fails(&[404, 409, 422]),
    ),
    api(
        Method::GET,
        "/v2/transcripts/{transcript_id}/redacted-audio",
        handler!(transcripts::redacted_audio, transcripts),
        doc("transcripts", "The recording without what was redacted", ResponseContent::Sound(&["audio/ogg"]))
            .fails(&[404, 409, 416]),
    ),
    api(
        Method::POST,
        "/v2/uploads/sign",
        handler!(uploads::sign, uploads),
        doc("uploads", "Get a signed URL for an upload", ResponseContent::Json("SignedUpload"))
            .takes("SignUpload")
            .fails(&[413, 415, 422]),
    ),
    api(
        Method::POST,
        "/v2/uploads/{upload_id}/complete",
        handler!(uploads::complete, uploads),
        doc("uploads", "Confirm that an upload is complete", ResponseContent::Json("Upload")).fails(&[404, 409]),
    ),
    api(
        Method::POST,
        "/v2/speech-understanding",
        handler!(understanding::create, language),
        doc("language", "Answer a prompt from a transcript", ResponseContent::JsonOrEvents("Understanding"))
            .takes("CreateUnderstanding")
            .fails(&[404, 409, 413, 415, 422, 502]),
    ),
    api(
        Method::POST,
        "/v2/llm/chat-completions",
        handler!(chat::create, language),
        doc("language", "Continue a conversation", ResponseContent::JsonOrEvents("ChatCompletion"))
            .takes("CreateChatCompletion")
            .fails(&[404, 409, 413, 415, 422, 502]),
    ),
    api(
        Method::GET,
        "/v2/models",
        handler!(models::list, models),
        doc("models", "Models, their units and rates", ResponseContent::Json("ModelList")),
    ),
    api(
        Method::GET,
        "/v2/pricing",
        handler!(models::list, models),
        doc("models", "The same catalog, for billing pages", ResponseContent::Json("ModelList")),
    ),
    api(
        Method::GET,
        "/v2/credits",
        handler!(billing::credits, billing),
        doc("billing", "Credit and spending", ResponseContent::Json("Credits")),
    ),
    api(
        Method::GET,
        "/v2/usage",
        handler!(billing::usage, billing),
        doc("billing", "Usage events, newest first", ResponseContent::Json("UsageList"))
            .with(&["limit", "offset"])
            .fails(&[422]),
    ),
    api(
        Method::GET,
        "/v2/usage/summary",
        handler!(billing::summary, billing),
        doc("billing", "Credit and usage by model", ResponseContent::Json("UsageSummary")),
    ),
    api(
        Method::GET,
        "/v2/voices",
        handler!(voices::list, voices),
        doc(
            "models",
            "Voices that speak, the default first, then the account's own",
            ResponseContent::Json("VoiceList"),
        ),
    ),
    api(
        Method::POST,
        "/v2/voices",
        handler!(voices::create, voices),
        doc("models", "Make a voice of a recording of a person who has agreed", ResponseContent::Json("OwnVoice"))
            .takes_form("CreateVoice")
            .fails(&[403, 409, 413, 415, 422, 503]),
    ),
    api(
        Method::GET,
        "/v2/voices/{voice_id}",
        handler!(voices::get, voices),
        doc("models", "Get a voice that the account has made", ResponseContent::Json("OwnVoice")).fails(&[404]),
    ),
    api(
        Method::DELETE,
        "/v2/voices/{voice_id}",
        handler!(voices::delete, voices),
        doc("models", "Delete a voice that the account has made for good", ResponseContent::Empty).fails(&[404]),
    ),
    api(
        Method::POST,
        "/v2/speakers",
        handler!(speakers::create, speakers),
        doc("speakers", "Keep the voice of a person whom transcripts may name", ResponseContent::Json("Speaker"))
            .takes("CreateSpeaker")
            .fails(&[404, 409, 413, 415, 422]),
    ),
    api(
        Method::GET,
        "/v2/speakers",
        handler!(speakers::list, speakers),
        doc("speakers", "People whom transcripts may name, newest first", ResponseContent::Json("SpeakerList"))
            .with(&["limit", "offset"])
            .fails(&[422]),
    ),
    api(
        Method::GET,
        "/v2/speakers/{speaker_id}",
        handler!(speakers::get, speakers),
        doc("speakers", "Get a person", ResponseContent::Json("Speaker")).fails(&[404]),
    ),
    api(
        Method::DELETE,
        "/v2/speakers/{speaker_id}",
        handler!(speakers::delete, speakers),
        doc("speakers", "Delete a person and the voice for good", ResponseContent::Empty).fails(&[404]),
    ),
    api(
        Method::POST,
        "/v2/webhooks/secret",
        handler!(webhooks::rotate_secret, webhooks),
        doc("webhooks", "Make or rotate the secret that signs webhooks", ResponseContent::Json("NewWebhookSecret")),
    ),
    api(
        Method::GET,
        "/v2/webhooks/secret",
        handler!(webhooks::get_secret, webhooks),
        doc("webhooks", "Tell if webhooks are signed", ResponseContent::Json("WebhookSecret")).fails(&[404]),
    ),
    api(
        Method::DELETE,
        "/v2/webhooks/secret",
        handler!(webhooks::delete_secret, webhooks),
        doc("webhooks", "Remove the secret: webhooks are no longer signed", ResponseContent::Empty).fails(&[404]),
    ),
    api(
        Method::POST,
        "/v2/billing/checkout",
        handler!(billing::checkout, billing),
        doc("billing", "Get the address of a checkout page", ResponseContent::Json("Checkout")).fails(&[403, 409]),
    ),
    api(
        Method::POST,
        "/v2/realtime/token",
        handler!(realtime::create_token, realtime),
        doc("realtime", "Mint a token for a live session", ResponseContent::Json("RealtimeToken"))
            .may_take("MintRealtimeToken")
            .fails(&[400, 402, 413, 415, 422]),
    ),
    api(
        Method::POST,
        "/v2/voice-agent/token",
        handler!(agent::create_token, agent),
        doc("voice-agent", "Mint a token for a session with a voice agent", ResponseContent::Json("VoiceAgentToken"))
            .may_take("MintVoiceAgentToken")
            .fails(&[400, 402, 413, 415, 422]),
    ),
    Route {
        surface: Surface::Api,
        method: Method::GET,
        path: agent::PATH,
        access: Access::Signed(SignedFor::Agent),
        handler: handler!(agent::connect, agent),
        doc: Some(
            doc("voice-agent", "Talk with a voice agent, over a WebSocket", ResponseContent::Upgrade)
                .with(&["token", "model"])
                .fails(&[400, 426]),
        ),
    },
    api(
        Method::POST,
        "/v2/telephony/token",
        |state, request| Box::pin(telephony::create_token(state.agent.clone(), state.transcripts.clone(), request)),
        doc("telephony", "Make an address for a telephone call", ResponseContent::Json("CallToken"))
            .takes("MintCallToken")
            .fails(&[400, 402, 413, 415, 422]),
    ),
    Route {
        surface: Surface::Api,
        method: Method::GET,
        path: "/v2/telephony/{provider}/{call_token}",
        access: Access::Signed(SignedFor::Call),
        handler: |state, request| Box::pin(telephony::connect(state.agent.clone(), state.transcripts.clone(), request)),
        doc: Some(
            doc("telephony", "Take a telephone call, in its provider's media stream", ResponseContent::Upgrade)
                .fails(&[400, 401, 404, 426, 429, 503]),
        ),
    },
    api(
        Method::GET,
        "/v1/models",
        handler!(openai::models, models),
        doc("openai", "Models, in OpenAI's shape", ResponseContent::Json("OpenAiModelList")),
    ),
    api(
        Method::GET,
        "/v1/models/{model_id}",
        handler!(openai::retrieve_model, models),
        doc("openai", "A model, in OpenAI's shape", ResponseContent::Json("OpenAiModel")).fails(&[404]),
    ),
    api(
        Method::POST,
        "/v1/chat/completions",
        handler!(openai::chat_completions, language),
        doc("openai", "Continue a conversation, in OpenAI's shape", ResponseContent::JsonOrEvents("ChatCompletion"))
            .takes("OpenAiChatCompletion")
            .fails(&[404, 409, 413, 415, 422, 502]),
    ),
    api(
        Method::POST,
        "/v1/audio/transcriptions",
        handler!(openai::transcriptions::create, transcripts),
        doc("openai", "Transcribe a file and wait for it", ResponseContent::JsonOrEvents("OpenAiTranscription"))
            .takes_form("OpenAiTranscriptionForm")
            .fails(&[402, 404, 413, 415, 422]),
    ),
    api(
        Method::POST,
        "/v1/audio/translations",
        handler!(openai::transcriptions::translate, transcripts),
        doc("openai", "Translate a file into English and wait for it", ResponseContent::Json("OpenAiTranscription"))
            .takes_form("OpenAiTranslationForm")
            .fails(&[402, 404, 413, 415, 422]),
    ),
    api(
        Method::POST,
        "/v1/audio/speech",
        handler!(openai::speech::create, speech),
        doc(
            "openai",
            "Say a text, in OpenAI's shape",
            ResponseContent::Sound(&["audio/mpeg", "audio/ogg", "audio/aac", "audio/flac", "audio/wav", "audio/pcm"]),
        )
        .takes("OpenAiSpeech")
        .fails(&[404, 413, 415, 422]),
    ),
    api(
        Method::POST,
        "/mcp",
        handler!(mcp::answer, mcp),
        doc(
            "assistants",
            "Answer a message of the Model Context Protocol",
            ResponseContent::JsonOrAccepted("McpResponse"),
        )
        .takes("McpMessage")
        .fails(&[403, 404, 413, 415])
        .fails_as("McpError"),
    ),
    undocumented(
        Surface::Api,
        Method::POST,
        "/inference",
        Access::AnyApiKey,
        handler!(whisper_server::inference, transcripts),
    ),
    undocumented(Surface::Api, Method::POST, "/asr", Access::AnyApiKey, handler!(asr_webservice::asr, transcripts)),
    undocumented(
        Surface::Api,
        Method::POST,
        "/detect-language",
        Access::AnyApiKey,
        handler!(asr_webservice::detect_language, transcripts),
    ),
    compat(
        Method::POST,
        "/v1/listen",
        handler!(deepgram::listen::create, transcripts),
        doc(
            "deepgram",
            "Transcribe a file and wait for it, in Deepgram's shape",
            ResponseContent::Json("DeepgramTranscript"),
        )
        .takes_bytes("DeepgramAudio")
        .with(&["listen_options"])
        .fails(&[402, 413])
        .fails_as("DeepgramError"),
    ),
    compat(
        Method::GET,
        "/v1/listen",
        handler!(deepgram::live::connect, realtime),
        doc("deepgram", "Transcribe live, in Deepgram's protocol over a WebSocket", ResponseContent::Upgrade)
            .with(&["listen_live_options"])
            .fails(&[402, 426])
            .fails_as("DeepgramError"),
    ),
    compat(
        Method::POST,
        "/v1/speak",
        handler!(deepgram::speak::create, speech),
        doc(
            "deepgram",
            "Say a text, in Deepgram's shape",
            ResponseContent::Sound(&[
                "audio/mpeg",
                "audio/ogg",
                "audio/aac",
                "audio/flac",
                "audio/wav",
                "audio/l16",
                "audio/mulaw",
                "audio/alaw",
            ]),
        )
        .takes("DeepgramText")
        .with(&["speak_options"])
        .fails(&[413, 415])
        .fails_as("DeepgramError"),
    ),
    compat(
        Method::GET,
        "/v1/speak",
        |state, request| {
            Box::pin(deepgram::speak::socket::connect(state.realtime.clone(), state.speech.clone(), request))
        },
        doc("deepgram", "Say texts as they come, in Deepgram's protocol over a WebSocket", ResponseContent::Upgrade)
            .with(&["speak_live_options"])
            .fails(&[426])
            .fails_as("DeepgramError"),
    ),
    assemblyai(Method::POST, "/v2/upload", handler!(files::upload, transcripts)),
    assemblyai(Method::POST, "/v2/transcript", handler!(files::create, transcripts)),
    assemblyai(Method::GET, "/v2/transcript", handler!(files::list, transcripts)),
    assemblyai(Method::GET, "/v2/transcript/{transcript_id}", handler!(files::get, transcripts)),
    assemblyai(Method::DELETE, "/v2/transcript/{transcript_id}", handler!(files::delete, transcripts)),
    assemblyai(Method::GET, "/v2/transcript/{transcript_id}/sentences", handler!(files::sentences, transcripts)),
    assemblyai(Method::GET, "/v2/transcript/{transcript_id}/paragraphs", handler!(files::paragraphs, transcripts)),
    assemblyai(Method::GET, "/v2/transcript/{transcript_id}/word-search", handler!(files::word_search, transcripts)),
    assemblyai(Method::GET, "/v2/transcript/{transcript_id}/srt", handler!(files::srt, transcripts)),
    assemblyai(Method::GET, "/v2/transcript/{transcript_id}/vtt", handler!(files::vtt, transcripts)),
    assemblyai(Method::GET, "/v3/token", handler!(streaming::create_token, realtime)),
    undocumented(
        Surface::Api,
        Method::GET,
        "/v3/ws",
        Access::Signed(SignedFor::Stream),
        handler!(streaming::connect, realtime),
    ),
    api(
        Method::POST,
        "/v1/realtime/client_secrets",
        handler!(openai::realtime::create_client_secret, realtime),
        doc("openai", "Make a secret for live sessions of a page", ResponseContent::Json("OpenAiClientSecret"))
            .may_take("CreateOpenAiClientSecret")
            .fails(&[402, 404, 413, 415, 422]),
    ),
    api(
        Method::POST,
        "/v1/realtime/transcription_sessions",
        handler!(openai::realtime::create_transcription_session, realtime),
        doc(
            "openai",
            "Make a secret for live sessions of a page, in OpenAI's older shape",
            ResponseContent::Json("OpenAiTranscriptionSession"),
        )
        .may_take("CreateOpenAiTranscriptionSession")
        .fails(&[402, 404, 413, 415, 422]),
    ),
    Route {
        surface: Surface::Api,
        method: Method::GET,
        path: "/v1/realtime",
        access: Access::KeyOrSecret,
        handler: handler!(openai::realtime::connect, agent),
        doc: Some(
            doc("openai", "Talk, or transcribe live, in OpenAI's protocol over a WebSocket", ResponseContent::Upgrade)
                .with(&["live_model", "intent"])
                .fails(&[426]),
        ),
    },
    #[cfg(feature = "webrtc")]
    Route {
        surface: Surface::Api,
        method: Method::POST,
        path: openai::realtime::calls::PATH,
        access: Access::KeyOrSecret,
        handler: handler!(openai::realtime::calls::create, agent),
        doc: Some(
            doc(
                "openai",
                "Talk, or transcribe live, in OpenAI's protocol over WebRTC: the answer to an offer",
                ResponseContent::CreatedText("application/sdp"),
            )
            .takes_sdp("OpenAiCallOffer")
            .or_form("CreateOpenAiCall")
            .with(&["call_model", "intent"])
            .fails(&[402, 404, 413, 415, 422]),
        ),
    },
    #[cfg(feature = "webrtc")]
    undocumented(
        Surface::Api,
        Method::OPTIONS,
        openai::realtime::calls::PATH,
        Access::Open,
        handler!(openai::realtime::calls::preflight),
    ),
    #[cfg(feature = "webrtc")]
    api(
        Method::POST,
        "/v1/realtime/calls/{call_id}/hangup",
        handler!(openai::realtime::calls::hang_up, realtime),
        doc("openai", "End a call", ResponseContent::Empty).fails(&[404]),
    ),
    Route {
        surface: Surface::Api,
        method: Method::GET,
        path: realtime::PATH,
        access: Access::Signed(SignedFor::Session),
        handler: handler!(realtime::connect, realtime),
        doc: Some(
            doc("realtime", "Transcribe live, over a WebSocket", ResponseContent::Upgrade)
                .with(&[
                    "token",
                    "model",
                    "sample_rate",
                    "language_code",
                    "medical_mode",
                    "format_numbers",
                    "keyterms_prompt",
                    "pii_redaction",
                    "pii_policies",
                    "pii_substitution",
                    "profanity_filter",
                ])
                .fails(&[400, 426]),
        ),
    },
    open(
        Surface::Health,
        "/health/live",
        handler!(health::live),
        doc("service", "Liveness: the process runs", ResponseContent::Json("Health")),
    ),
    open(
        Surface::Health,
        "/health/ready",
        handler!(health::ready, health),
        doc("service", "Readiness: the service can take work", ResponseContent::Json("Health")).fails(&[503]),
    ),
    open(
        Surface::Health,
        "/metrics",
        handler!(health::metrics, health),
        doc("service", "Metrics for Prometheus", ResponseContent::Text("text/plain")),
    ),
    open(
        Surface::Api,
        "/openapi.json",
        handler!(health::openapi, health),
        doc("service", "This document", ResponseContent::Json("Document")),
    ),
    open(
        Surface::Api,
        "/asyncapi.json",
        handler!(health::asyncapi, health),
        doc("service", "The frames of the WebSockets, as AsyncAPI", ResponseContent::Json("Document")),
    ),
    undocumented(Surface::Storage, Method::PUT, "/uploads/{upload_id}", UPLOAD, handler!(uploads::put, uploads)),
    undocumented(Surface::Storage, Method::OPTIONS, "/uploads/{upload_id}", Access::Open, handler!(uploads::preflight)),
    undocumented(Surface::Dashboard, Method::GET, "/billing/checkout", CHECKOUT, handler!(checkout::page)),
    undocumented(
        Surface::Dashboard,
        Method::POST,
        "/billing/checkout",
        CHECKOUT,
        handler!(checkout::confirm, dashboard),
    ),
    undocumented(
        Surface::Dashboard,
        Method::POST,
        "/billing/stripe",
        Access::Open,
        handler!(stripe_events::receive, dashboard),
    ),
    undocumented(Surface::Dashboard, Method::GET, "/assets/{name}", Access::Open, handler!(assets::get)),
    visitor(Method::GET, "/login", handler!(sign_in::show, dashboard)),
    visitor(Method::POST, "/login", handler!(sign_in::sign_in, dashboard)),
    visitor(Method::GET, "/login/openid", handler!(openid::begin, dashboard)),
    visitor(Method::GET, auth_openid::CALLBACK, handler!(openid::callback, dashboard)),
    visitor(Method::GET, "/signup", handler!(sign_in::show_sign_up, dashboard)),
    visitor(Method::POST, "/signup", handler!(sign_in::sign_up, dashboard)),
    visitor(Method::GET, "/welcome/{secret}", handler!(welcome::show, dashboard)),
    visitor(Method::POST, "/welcome/{secret}", handler!(welcome::set_password, dashboard)),
    visitor(Method::GET, "/forgot", handler!(forgot::show, dashboard)),
    visitor(Method::POST, "/forgot", handler!(forgot::send, dashboard)),
    visitor(Method::GET, "/confirm/{secret}", handler!(forgot::show_confirm, dashboard)),
    visitor(Method::POST, "/confirm/{secret}", handler!(forgot::confirm, dashboard)),
    visitor(Method::GET, "/s/{secret}", handler!(share::show, dashboard)),
    visitor(Method::GET, "/join/{secret}", handler!(join::show, dashboard)),
    visitor(Method::POST, "/join/{secret}", handler!(join::join, dashboard)),
    page(Method::POST, "/logout", handler!(sign_in::sign_out, dashboard)),
    page(Method::POST, "/logout-everywhere", handler!(sign_in::sign_out_everywhere, dashboard)),
    page(Method::GET, "/", handler!(frame::home)),
    page(Method::GET, "/keys", handler!(keys::show, dashboard)),
    page(Method::POST, "/keys", handler!(keys::create, dashboard)),
    page(Method::POST, "/keys/{key_id}/revoke", handler!(keys::revoke, dashboard)),
    page(Method::GET, "/transcripts", handler!(library::list, dashboard)),
    page(Method::GET, "/transcripts/export", handler!(library::export, dashboard)),
    page(Method::GET, "/transcripts/new", handler!(dashboard::transcripts::new, dashboard)),
    page(Method::GET, "/transcripts/{transcript_id}", handler!(dashboard::transcripts::show, dashboard)),
    page(Method::GET, "/transcripts/{transcript_id}/audio", handler!(audio::get, dashboard)),
    page(
        Method::GET,
        "/transcripts/{transcript_id}/download/{format}",
        handler!(dashboard::transcripts::download, dashboard),
    ),
    page(Method::POST, "/transcripts/{transcript_id}/delete", handler!(dashboard::transcripts::delete, dashboard)),
    page(Method::GET, "/usage", handler!(usage::show, dashboard)),
    page(Method::GET, "/usage.csv", handler!(usage::csv, dashboard)),
    page(Method::GET, "/webhooks", handler!(dashboard::webhooks::list, dashboard)),
    page(Method::GET, "/webhooks/{delivery_id}", handler!(dashboard::webhooks::show, dashboard)),
    page(Method::POST, "/webhooks/{delivery_id}/send", handler!(dashboard::webhooks::send, dashboard)),
    page(Method::POST, "/webhooks/secret", handler!(dashboard::webhooks::rotate_secret, dashboard)),
    page(Method::POST, "/webhooks/secret/remove", handler!(dashboard::webhooks::remove_secret, dashboard)),
    page(Method::GET, "/reference", handler!(reference::show, dashboard)),
    page(Method::GET, "/reference/{operation_id}", handler!(reference::operation, dashboard)),
    page(Method::GET, "/billing", handler!(dashboard::billing::show, dashboard)),
    page(Method::GET, "/team", handler!(team::show, dashboard)),
    page(Method::POST, "/team/invitations", handler!(team::invite, dashboard)),
    page(Method::POST, "/team/invitations/{invitation_id}/withdraw", handler!(team::withdraw, dashboard)),
    page(Method::POST, "/team/{user_id}/remove", handler!(team::remove, dashboard)),
    page(Method::POST, "/billing/budget", handler!(dashboard::billing::set_budget, dashboard)),
    // The handlers answer everybody but operators as if there were nothing.
    visitor(Method::GET, "/operator", handler!(operator::show, dashboard)),
    visitor(Method::POST, "/operator", handler!(operator::start_pull, dashboard)),
    visitor(Method::POST, "/operator/limits", handler!(operator::set_limit, dashboard)),
    visitor(Method::GET, "/data/operator/pull", handler!(operator::progress, dashboard)),
    page(Method::GET, "/playground", handler!(playground::file, dashboard)),
    page(Method::GET, "/playground/live", handler!(playground::live, dashboard)),
    page(Method::GET, "/playground/agent", handler!(playground::agent, dashboard)),
    script(
        Method::GET,
        "/data/transcripts/{transcript_id}/progress",
        handler!(dashboard::transcripts::progress, dashboard),
    ),
    script(Method::POST, "/data/presets", handler!(presets::keep, dashboard)),
    script(Method::POST, "/data/presets/delete", handler!(presets::delete, dashboard)),
    script(Method::POST, "/data/transcripts/change", handler!(library::change, dashboard)),
    script(Method::GET, "/data/transcripts/progress", handler!(dashboard::transcripts::progress_of_rows, dashboard)),
    script(Method::POST, "/data/transcripts/{transcript_id}/speakers", handler!(speaker_labels::name, dashboard)),
    script(Method::POST, "/data/transcripts/{transcript_id}/share", handler!(share::create, dashboard)),
    script(Method::DELETE, "/data/transcripts/{transcript_id}/share", handler!(share::revoke, dashboard)),
    // The handlers of the API, for the scripts of the pages.
    script(Method::POST, "/data/transcripts", handler!(transcripts::create, transcripts)),
    script(Method::PATCH, "/data/transcripts/{transcript_id}", handler!(edits::patch, transcripts)),
    script(Method::GET, "/data/transcripts/{transcript_id}/paragraphs", handler!(transcripts::paragraphs, transcripts)),
    script(Method::POST, "/data/uploads/sign", handler!(uploads::sign, uploads)),
    script(Method::POST, "/data/uploads/{upload_id}/complete", handler!(uploads::complete, uploads)),
    script(Method::POST, "/data/speech-understanding", handler!(understanding::create, language)),
    script(Method::POST, "/data/realtime/token", handler!(realtime::create_token, realtime)),
    script(Method::POST, "/data/voice-agent/token", handler!(agent::create_token, agent)),
    script(Method::POST, "/data/billing/checkout", handler!(billing::checkout, billing)),
];
