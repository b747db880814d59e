//! The providers, each with frames of its own.

use serde_json::Value;

use super::frame::{CallFrame, Fault};
use super::{plivo, telnyx, twilio};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    Twilio,
    Telnyx,
    Plivo,
}

impl Provider {
    const ALL: [(&'static str, Self); 3] = [("twilio", Self::Twilio), ("telnyx", Self::Telnyx), ("plivo", Self::Plivo)];

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, provider)| provider)
    }

    pub fn names() -> String {
        Self::ALL.map(|(name, _)| name).join(", ")
    }

    /// # Errors
    /// The reason of the close.
    pub fn parse(self, text: &str) -> Result<CallFrame, Fault> {
        match self {
            Self::Twilio => twilio::parse(text),
            Self::Telnyx => telnyx::parse(text),
            Self::Plivo => plivo::parse(text),
        }
    }

    /// Audio of the agent, in base64.
    pub fn audio(self, stream: &str, payload: &str) -> Value {
        match self {
            Self::Twilio => twilio::audio(stream, payload),
            Self::Telnyx => telnyx::audio(payload),
            Self::Plivo => plivo::audio(stream, payload),
        }
    }

    /// A mark that comes back once all audio before it is played.
    pub fn mark(self, stream: &str, name: &str) -> Value {
        match self {
            Self::Twilio => twilio::mark(stream, name),
            Self::Telnyx => telnyx::mark(name),
            Self::Plivo => plivo::mark(stream, name),
        }
    }

    /// Drops all audio that is not played.
    pub fn clear(self, stream: &str) -> Value {
        match self {
            Self::Twilio => twilio::clear(stream),
            Self::Telnyx => telnyx::clear(),
            Self::Plivo => plivo::clear(stream),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::frame::Start;
    use super::*;
    use crate::live::codec::Encoding;

    fn start(parameters: &[(&str, &str)], encoding: Encoding) -> CallFrame {
        let parameters = parameters.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        CallFrame::Start(Start { stream: "s".into(), call: "c".into(), encoding, parameters })
    }

    #[test]
    fn frames_of_each_provider_are_read() {
        let format = json!({ "encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1 });
        let twilio = json!({ "event": "start", "sequenceNumber": "1", "streamSid": "s", "start": { "streamSid": "s", "callSid": "c",
            "tracks": ["inbound"], "customParameters": { "name": "Ann" }, "mediaFormat": format } });
        let numbers = json!({ "call_control_id": "c", "from": "+1", "to": "+2", "custom_parameters": { "name": "Ann" },
            "media_format": { "encoding": "PCMA", "sample_rate": 8000, "channels": 1 } });
        let telnyx = json!({ "event": "start", "sequence_number": "1", "stream_id": "s", "start": numbers });
        let plivo = json!({ "event": "start", "extra_headers": "name=Ann; b=c", "start": { "streamId": "s", "callId": "c",
            "mediaFormat": { "encoding": "audio/x-mulaw", "sampleRate": 8000 } } });
        let from = [("from", "+1"), ("to", "+2"), ("name", "Ann")];
        for (provider, frame, read) in [
            (Provider::Twilio, twilio, start(&[("name", "Ann")], Encoding::Mulaw)),
            (Provider::Telnyx, telnyx, start(&from, Encoding::Alaw)),
            (Provider::Plivo, plivo, start(&[("name", "Ann"), ("b", "c")], Encoding::Mulaw)),
        ] {
            assert_eq!(provider.parse(&frame.to_string()), Ok(read));
            let media = json!({ "event": "media", "media": { "track": "inbound", "chunk": 1, "payload": "AA==" } });
            assert_eq!(provider.parse(&media.to_string()), Ok(CallFrame::Audio("AA==".into())));
            let key = json!({ "event": "dtmf", "dtmf": { "digit": "#" } });
            assert_eq!(provider.parse(&key.to_string()), Ok(CallFrame::Key('#')));
            assert_eq!(provider.parse(r#"{"event":"stop","stop":{}}"#), Ok(CallFrame::Stop));
            assert_eq!(provider.parse(r#"{"event":"connected"}"#), Ok(CallFrame::Other));
            assert_eq!(provider.parse(r#"{"event":"new","x":[1]}"#), Ok(CallFrame::Other));
        }
        let played = Ok(CallFrame::Played("m".into()));
        assert_eq!(Provider::Twilio.parse(r#"{"event":"mark","mark":{"name":"m"}}"#), played);
        assert_eq!(Provider::Plivo.parse(r#"{"event":"playedStream","name":"m"}"#), played);
    }

    #[test]
    fn frames_that_cannot_be_used_have_a_reason_that_fits_a_close() {
        let long = "x".repeat(5_000);
        let twilio = |format: Value, name: &str| {
            json!({ "event": "start", "start": { "streamSid": "s", "callSid": "c", "mediaFormat": format,
                "customParameters": { "a": name } } })
        };
        let mulaw = json!({ "encoding": "audio/x-mulaw", "sampleRate": 8000 });
        for (frame, reason) in [
            (String::new(), "not a JSON object"),
            ("hello".into(), "not a JSON object"),
            ("[1]".into(), "not a JSON object"),
            ("{}".into(), "not a JSON object"),
            (r#"{"event":5}"#.into(), "not a JSON object"),
            (r#"{"event":"media"}"#.into(), "lacks a field"),
            (r#"{"event":"media","media":{"payload":7}}"#.into(), "lacks a field"),
            (r#"{"event":"media","media":{"track":"outbound","payload":""}}"#.into(), "inbound track alone"),
            (r#"{"event":"dtmf","dtmf":{"digit":"12"}}"#.into(), "digit"),
            (r#"{"event":"dtmf","dtmf":{"digit":"x"}}"#.into(), "digit"),
            (twilio(json!({ "encoding": "audio/x-l16", "sampleRate": 8000 }), "").to_string(), "mu-law"),
            (twilio(json!({ "encoding": "audio/x-mulaw", "sampleRate": 16000 }), "").to_string(), "8000 Hz"),
            (twilio(mulaw, &long).to_string(), "4096 bytes"),
        ] {
            let fault = Provider::Twilio.parse(&frame).unwrap_err();
            assert!(fault.contains(reason) && fault.len() <= 123, "{frame}: {fault}");
        }
    }
}
