//! The way to the SMTP server.

use std::time::Duration;

use lettre::message::header::{ContentType, Header, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{Address, AsyncSmtpTransport, AsyncTransport as _, Tokio1Executor};

use super::letters::Text;
use crate::config::{Config, MailTls};
use crate::ids::MailId;

/// The longest time that sending a letter takes.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// The longest wait for one answer of the server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Codes that tell of the settings and not of the letter: the server wants another user, password or encryption.
const SETTINGS_CODES: [u16; 4] = [530, 534, 535, 538];

/// The reason why a letter was not sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Unsent {
    /// A later attempt may succeed.
    Failed(String),
    /// No attempt can succeed.
    Refused(String),
}

/// An SMTP server with the sender's address.
pub struct Smtp {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
}

impl Smtp {
    /// None if the settings name no server. The port is what the kind of encryption commonly has.
    ///
    /// # Errors
    /// One line for a setting that cannot be used.
    pub fn new(config: &Config) -> Result<Option<Self>, String> {
        let Some(host) = &config.mail_host else { return Ok(None) };
        let from = config.mail_from.as_deref().unwrap_or_default();
        let from = from
            .parse()
            .map_err(|_| format!("settings: mail_from: {from:?} is no address, such as auricle@example.com"))?;
        let tls = || TlsParameters::new(host.clone()).map_err(|error| format!("settings: mail_host: {error}"));
        let (tls, port) = match config.mail_tls {
            MailTls::Starttls => (Tls::Required(tls()?), 587),
            MailTls::Implicit => (Tls::Wrapper(tls()?), 465),
            MailTls::Off => (Tls::None, 25),
        };
        let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(host)
            .tls(tls)
            .port(config.mail_port.unwrap_or(port))
            .timeout(Some(ANSWER_TIMEOUT));
        // Some servers want to be greeted by a name.
        #[cfg(unix)]
        if let Ok(name) = rustix::system::uname().nodename().to_str() {
            builder = builder.hello_name(ClientId::Domain(name.to_owned()));
        }
        if let (Some(user), Some(password)) = (&config.mail_user, &config.mail_password) {
            builder = builder.credentials(Credentials::new(user.clone(), password.clone()));
        }
        Ok(Some(Self { transport: builder.build(), from }))
    }

    /// Sends a letter. One that is sent again has the same message id.
    pub async fn send(&self, id: &MailId, recipient: &str, text: Text) -> Result<(), Unsent> {
        let address: Address =
            recipient.parse().map_err(|error| Unsent::Refused(format!("the address cannot be used: {error}")))?;
        let message = Message::builder()
            .from(self.from.clone())
            .to(Mailbox::new(None, address))
            .subject(text.subject)
            .message_id(Some(format!("<{id}@{}>", self.from.email.domain())))
            .header(ContentType::TEXT_PLAIN)
            .header(AutoSubmitted)
            .body(text.body)
            .map_err(|error| Unsent::Refused(error.to_string()))?;
        match tokio::time::timeout(TIMEOUT, self.transport.send(message)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(unsent(&error)),
            Err(_) => Err(Unsent::Failed(format!("the server did not take it within {} s", TIMEOUT.as_secs()))),
        }
    }
}

fn unsent(error: &lettre::transport::smtp::Error) -> Unsent {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        source = inner.source();
    }
    // A server may say much.
    text = text.chars().filter(|character| !character.is_control()).take(500).collect();
    let is_of_settings = error.status().is_some_and(|code| SETTINGS_CODES.contains(&u16::from(code)));
    if error.is_permanent() && !is_of_settings { Unsent::Refused(text) } else { Unsent::Failed(text) }
}

/// Tells other programs not to answer.
#[derive(Clone)]
struct AutoSubmitted;

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self)
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), "auto-generated".into())
    }
}
