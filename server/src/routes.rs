//! The routing table: every path and method of the service, its access rule, its handler and its documentation.

use std::future::Future;
use std::pin::Pin;
use std::sync::LazyLock;

use hyper::Method;

use crate::api::{
    billing, chat, edits, health, models, openai, speakers, tags, transcript_search, transcripts, understanding,
    uploads, voices, webhooks,
};
use crate::auth::openid as auth_openid;
use crate::auth::{Access, SignedFor};
use crate::compat::assemblyai::{files, streaming};
use crate::compat::{asr_webservice, deepgram, mcp, telephony, whisper_server};
use crate::context::{PathParams, RequestContext};
use crate::dashboard::{
    self, assets, audio, checkout, forgot, frame, join, keys, library, openid, operator, playground, presets,
    reference, share, sign_in, speakers as speaker_labels, stripe_events, team, usage, welcome,
};
use crate::http::response::{ApiError, Response, Result};
use crate::live::{agent, realtime};
use crate::state::AppState;

/// One of the addresses that the service listens on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    Api,
    /// Health checks and metrics: on the API's address, or on one of their own.
    Health,
    Storage,
    Dashboard,
}

/// The response of a handler, once it is ready.
pub type HandlerFuture = Pin<Box<dyn Future<Output = Result<Response>> + Send>>;

/// A handler, with the part of the state that it gets.
pub type Handler = fn(&AppState, RequestContext) -> HandlerFuture;

/// The documentation of a route. Schemas and parameters are named as in `openapi/components.json`.
pub struct OperationDoc {
    pub tag: &'static str,
    pub summary: &'static str,
    pub request: Option<&'static str>,
    /// The content type of the body.
    pub request_type: &'static str,
    /// The schema of a body that is a form, beside that in JSON.
    pub form: Option<&'static str>,
    /// True if the body may be left out.
    pub request_is_optional: bool,
    pub response: ResponseContent,
    /// Names of query and header parameters.
    pub parameters: &'static [&'static str],
    /// Error statuses beyond those of every route.
    pub errors: &'static [u16],
    /// The schema of errors.
    pub error: &'static str,
}

/// The content of a successful response.
#[derive(Clone, Copy)]
pub enum ResponseContent {
    /// JSON of this schema.
    Json(&'static str),
    /// JSON of this schema, or no content for a message that has no answer.
    JsonOrAccepted(&'static str),
    /// JSON of this schema, or server-sent events if the request asks for a stream.
    JsonOrEvents(&'static str),
    /// Text of this content type.
    Text(&'static str),
    /// Sound of one of these content types.
    Sound(&'static [&'static str]),
    Empty,
    /// 201 with text of this content type.
    #[cfg(feature = "webrtc")]
    CreatedText(&'static str),
    /// The connection becomes a WebSocket.
    Upgrade,
}

/// One row of the table.
pub struct Route {
    pub surface: Surface,
    pub method: Method,
    pub path: &'static str,
    pub access: Access,
    pub handler: Handler,
    /// None for pages and payment events, which are not part of the API.
    pub doc: Option<OperationDoc>,
}

macro_rules! handler {
    ($function:path) => {
        |_, request| Box::pin($function(request))
    };
    ($function:path, $part:ident) => {
        |state, request| Box::pin($function(state.$part.clone(), request))
    };
}

const fn doc(tag: &'static str, summary: &'static str, response: ResponseContent) -> OperationDoc {
    OperationDoc {
        tag,
        summary,
        request: None,
        request_type: "application/json",
        form: None,
        request_is_optional: false,
        response,
        parameters: &[],
        errors: &[],
        error: "Error",
    }
}

impl OperationDoc {
    const fn takes(mut self, schema: &'static str) -> Self {
        self.request = Some(schema);
        self
    }

    const fn takes_form(mut self, schema: &'static str) -> Self {
        self.request_type = "multipart/form-data";
        self.takes(schema)
    }

    const fn takes_bytes(mut self, schema: &'static str) -> Self {
        self.request_type = "application/octet-stream";
        self.takes(schema)
    }

    #[cfg(feature = "webrtc")]
    const fn takes_sdp(mut self, schema: &'static str) -> Self {
        self.request_type = "application/sdp";
        self.takes(schema)
    }

    const fn or_form(mut self, schema: &'static str) -> Self {
        self.form = Some(schema);
        self
    }

    const fn may_take(mut self, schema: &'static str) -> Self {
        self.request_is_optional = true;
        self.takes(schema)
    }

    const fn with(mut self, parameters: &'static [&'static str]) -> Self {
        self.parameters = parameters;
        self
    }

    const fn fails(mut self, errors: &'static [u16]) -> Self {
        self.errors = errors;
        self
    }

    const fn fails_as(mut self, schema: &'static str) -> Self {
        self.error = schema;
        self
    }
}

/// The query of both formats of subtitles.
const SUBTITLE_PARAMETERS: [&str; 5] =
    ["chars_per_caption", "max_line_width", "max_line_count", "highlight_words", "original"];

const fn api(method: Method, path: &'static str, handler: Handler, doc: OperationDoc) -> Route {
    Route { surface: Surface::Api, method, path, access: Access::ApiKey, handler, doc: Some(doc) }
}

/// A route of another protocol, whose clients send their key in forms of their own.
const fn compat(method: Method, path: &'static str, handler: Handler, doc: OperationDoc) -> Route {
    Route { surface: Surface::Api, method, path, access: Access::AnyApiKey, handler, doc: Some(doc) }
}

const fn open(surface: Surface, path: &'static str, handler: Handler, doc: OperationDoc) -> Route {
    Route { surface, method: Method::GET, path, access: Access::Open, handler, doc: Some(doc) }
}

const fn undocumented(surface: Surface, method: Method, path: &'static str, access: Access, handler: Handler) -> Route {
    Route { surface, method, path, access, handler, doc: None }
}

const fn assemblyai(method: Method, path: &'static str, handler: Handler) -> Route {
    undocumented(Surface::Api, method, path, Access::AnyApiKey, handler)
}

const fn visitor(method: Method, path: &'static str, handler: Handler) -> Route {
    undocumented(Surface::Dashboard, method, path, Access::Visitor, handler)
}

const fn page(method: Method, path: &'static str, handler: Handler) -> Route {
    undocumented(Surface::Dashboard, method, path, Access::SignedIn, handler)
}

const fn script(method: Method, path: &'static str, handler: Handler) -> Route {
    undocumented(Surface::Dashboard, method, path, Access::Script, handler)
}

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

/// The routes of the API once more, below `/try` of the dashboard, where the script of the reference sends requests as the visitor.
static TRIED: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let takes_key = |route: &&Route| matches!(route.access, Access::ApiKey | Access::AnyApiKey);
    let tried = ROUTES.iter().filter(|route| route.doc.is_some()).filter(takes_key);
    let routes = tried.map(|route| {
        let path = format!("/try{}", route.path).leak();
        undocumented(Surface::Dashboard, route.method.clone(), path, Access::Script, route.handler)
    });
    routes.collect()
});

/// The routes of a listener, by path.
pub struct Router {
    surfaces: &'static [Surface],
    paths: matchit::Router<Vec<&'static Route>>,
}

/// The match of a path and method.
pub enum RouteMatch {
    Route {
        route: &'static Route,
        params: PathParams,
    },
    /// The path exists, with these methods.
    OtherMethods(Vec<&'static Route>),
    NotFound,
}

impl Router {
    pub fn new(surfaces: &'static [Surface]) -> Self {
        let mut by_path: Vec<(&str, Vec<&'static Route>)> = Vec::new();
        for route in ROUTES.iter().chain(&*TRIED).filter(|route| surfaces.contains(&route.surface)) {
            match by_path.iter_mut().find(|(path, _)| *path == route.path) {
                Some((_, routes)) => routes.push(route),
                None => by_path.push((route.path, vec![route])),
            }
        }
        let mut paths = matchit::Router::new();
        for (path, routes) in by_path {
            if let Err(error) = paths.insert(path, routes) {
                // A test covers the whole table.
                tracing::error!(path, %error, "a route conflicts with another");
            }
        }
        Self { surfaces, paths }
    }

    pub fn serves(&self, surface: Surface) -> bool {
        self.surfaces.contains(&surface)
    }

    /// Finds a route. HEAD uses the route of GET; the connection drops the body.
    pub fn find(&self, method: &Method, path: &str) -> RouteMatch {
        let Ok(matched) = self.paths.at(path) else { return RouteMatch::NotFound };
        let wanted = if method == Method::HEAD { &Method::GET } else { method };
        match matched.value.iter().find(|route| route.method == wanted) {
            None => RouteMatch::OtherMethods(matched.value.clone()),
            Some(route) => {
                let decode = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
                let params: PathParams =
                    matched.params.iter().map(|(key, value)| (key.to_owned(), decode(value))).collect();
                // No id contains a null character, and PostgreSQL refuses queries with one.
                if params.iter().any(|(_, value)| value.contains('\0')) {
                    return RouteMatch::NotFound;
                }
                RouteMatch::Route { route, params }
            }
        }
    }
}

impl RouteMatch {
    /// The path in the table, for logs and metrics.
    pub fn path(&self) -> &'static str {
        match self {
            Self::Route { route, .. } => route.path,
            Self::OtherMethods(routes) => routes.first().map_or("none", |route| route.path),
            Self::NotFound => "none",
        }
    }

    /// The error for a request without a route: 404 or 405.
    pub fn refusal(&self) -> ApiError {
        let Self::OtherMethods(routes) = self else { return ApiError::no_such_path() };
        let mut allow: Vec<&str> = routes.iter().map(|route| route.method.as_str()).collect();
        if allow.contains(&"GET") {
            allow.push("HEAD");
        }
        ApiError::method_not_allowed(&allow.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_found() {
        let routers =
            [Router::new(&[Surface::Api, Surface::Health]), Router::new(&[Surface::Storage, Surface::Dashboard])];
        for route in ROUTES {
            let path = route.path.replace(['{', '}'], "");
            let router = routers.iter().find(|router| router.serves(route.surface)).unwrap();
            let RouteMatch::Route { route: found, .. } = router.find(&route.method, &path) else {
                panic!("{path} is not found");
            };
            assert!(std::ptr::eq(found, route), "{path}");
        }
    }

    #[test]
    fn unknown_methods_and_paths_have_no_route() {
        let router = Router::new(&[Surface::Api]);
        let found = router.find(&Method::PUT, "/v2/transcripts/tr_1");
        assert_eq!(found.refusal().message, "This path takes GET, PATCH, DELETE, HEAD.");
        for path in [
            "/",
            "/v2",
            "/v2/transcripts/",
            "/v2/transcripts/a/b",
            "/V2/models",
            "/v2//models",
            "/uploads/u",
            "/metrics",
        ] {
            assert!(matches!(router.find(&Method::GET, path), RouteMatch::NotFound), "{path}");
        }
        let RouteMatch::Route { params, .. } = router.find(&Method::HEAD, "/v2/transcripts/%2e%2e%2fx") else {
            panic!("HEAD uses the route of GET");
        };
        assert_eq!(params, [("transcript_id".into(), "../x".into())]);
    }
}
