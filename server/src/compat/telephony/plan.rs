//! The plan of a call, which is made before the call comes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::create;
use crate::billing::{Price, ProductKind};
use crate::http::body::Fields;
use crate::http::response::{ApiError, Result};
use crate::jobs::text_options;
use crate::live::LiveState;
use crate::live::agent::settings::Settings;
use crate::live::agent::voice;
use crate::live::realtime;
use crate::outbound::Outbound;
use crate::store::JobOptions;

/// Settings of an agent that a call cannot have, with the reason.
const REFUSED: [(&str, &str); 3] = [
    ("/tools", "a telephone runs no tools"),
    ("/input/format", "the provider's stream has one format"),
    ("/output/format", "the provider's stream has one format"),
];

#[derive(Serialize, Deserialize)]
pub struct Plan {
    pub title: Option<String>,
    pub webhook_url: Option<String>,
    /// Of a call that is transcribed alone.
    pub language_code: Option<String>,
    pub options: JobOptions,
    /// The settings of the agent, as `session.update` has them; none for a call that is transcribed alone.
    pub session: Option<Value>,
}

impl Plan {
    /// Reads the plan of a call with a model of this price.
    ///
    /// # Errors
    /// 400 or 422 for a field that is wrong or does not belong to the model.
    pub async fn read(fields: &mut Fields, price: &Price, live: &LiveState, outbound: &Outbound) -> Result<Self> {
        let title = create::title(fields)?;
        let webhook_url = fields.string_of("webhook_url", 0..=create::MAX_URL_CHARS)?;
        if let Some(url) = &webhook_url {
            create::check_webhook_url(outbound, url)?;
        }
        if price.kind == ProductKind::Agent {
            let session = fields.take("session").unwrap_or_else(|| Value::Object(serde_json::Map::new()));
            check_session(&session, live).await?;
            let options = JobOptions { speaker_labels: true, ..JobOptions::default() };
            Ok(Self { title, webhook_url, language_code: None, options, session: Some(session) })
        } else {
            let language_code = fields.string("language_code")?;
            let options = JobOptions {
                medical_mode: fields.flag("medical_mode")?,
                format_numbers: fields.optional_flag("format_numbers")?,
                ..text_options(fields)?
            };
            realtime::check_options(live, price.model, language_code.as_deref(), &options)?;
            Ok(Self { title, webhook_url, language_code, options, session: None })
        }
    }
}

async fn check_session(session: &Value, live: &LiveState) -> Result<()> {
    for (name, reason) in REFUSED {
        if session.pointer(name).is_some_and(|value| !value.is_null()) {
            let name = name.replace('/', ".");
            return Err(ApiError::unsupported_option(format!("`session{name}` cannot be served: {reason}.")));
        }
    }
    // A process without an engine knows no voices: the one that takes the call does.
    let voices = match &live.engine {
        Some(engine) => voice::ids(engine),
        None => session.pointer("/output/voice").and_then(Value::as_str).map(str::to_owned).into_iter().collect(),
    };
    let settings = Settings::default().updated(session.clone(), &voices).await;
    settings.map(drop).map_err(|fault| ApiError::validation(fault.message))
}
