//! Letters with links: a forgotten password, and a new account, whose address the link verifies. Answers are the same for known
//! and unknown addresses.

use std::sync::Arc;

use askama::Template;

use super::form::Form;
use super::frame::{Frame, page, refused};
use super::passwords::weakness;
use super::welcome::WelcomePage;
use super::words::EN;
use super::{DashboardState, LINK_MS};
use crate::auth::visitor::{hash_of, new_secret};
use crate::clock;
use crate::context::RequestContext;
use crate::http::rate_limits::Client;
use crate::http::response::{ApiError, Response, Result};
use crate::store::email_address;

#[derive(Template)]
#[template(path = "forgot.html")]
struct ForgotPage<'a> {
    frame: Frame,
    email: &'a str,
    problem: &'a str,
}

#[derive(Template)]
#[template(path = "sent.html")]
struct SentPage<'a> {
    frame: Frame,
    email: &'a str,
    /// The purpose of the letter.
    explanation: &'a str,
}

fn sent(email: &str, explanation: &str) -> Result<Response> {
    page(&SentPage { frame: Frame::plain(EN.sent, ""), email, explanation })
}

/// Refuses pages that create accounts where none may be created.
pub(super) async fn check_sign_up(state: &DashboardState) -> Result<()> {
    match state.store.may_sign_up(state.sign_up).await? {
        true => Ok(()),
        false => Err(ApiError::not_found(EN.sign_up_closed)),
    }
}

/// Refuses pages that need mail where none is sent.
pub(super) fn need_mail(state: &DashboardState) -> Result<()> {
    if state.sends_mail { Ok(()) } else { Err(ApiError::not_found(EN.mail_none)) }
}

/// `GET /forgot`
pub async fn show(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    need_mail(&state)?;
    let visitor = request.visitor()?;
    page(&ForgotPage { frame: Frame::plain(EN.forgot_title, &visitor.form_token), email: "", problem: "" })
}

/// `POST /forgot`
pub async fn send(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    need_mail(&state)?;
    let (token, address) = (request.visitor()?.form_token.clone(), request.address().clone());
    let form = Form::read(request).await?;
    let Some(email) = email_address(form.text("email")) else {
        let frame = Frame::plain(EN.forgot_title, &token);
        return refused(&ForgotPage { frame, email: form.text("email"), problem: EN.email_wrong });
    };
    state.attempts.letter(&address, &email)?;
    let secret = new_secret();
    state.store.request_reset(&email, &secret, &hash_of(&secret), clock::now_ms() + LINK_MS).await?;
    state.notifiers.mails.notify_one();
    sent(&email, EN.sent_reset)
}

/// Answers a sign-up with a letter.
pub(super) async fn send_sign_up(state: &DashboardState, address: &Client, email: &str) -> Result<Response> {
    state.attempts.letter(address, email)?;
    let secret = new_secret();
    state.store.request_sign_up(email, &secret, &hash_of(&secret), clock::now_ms() + LINK_MS).await?;
    state.notifiers.mails.notify_one();
    sent(email, EN.sent_sign_up)
}

/// The hash of the path's secret, and the address that its link is for.
async fn link(state: &DashboardState, request: &RequestContext) -> Result<(String, String)> {
    check_sign_up(state).await?;
    state.attempts.link(request.address())?;
    let hash = hash_of(&request.param("secret"));
    let email = state.store.sign_up_link(&hash).await?.ok_or_else(|| ApiError::not_found(EN.confirm_gone))?;
    state.attempts.right_link(request.address());
    Ok((hash, email))
}

/// `GET /confirm/{secret}`. It changes nothing: programs open the links of letters, too.
pub async fn show_confirm(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let (_, email) = link(&state, &request).await?;
    let frame = Frame::plain(EN.sign_up_title, &request.visitor()?.form_token);
    page(&WelcomePage { frame, email: &email, problem: "" })
}

/// `POST /confirm/{secret}`
pub async fn confirm(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let (hash, email) = link(&state, &request).await?;
    let token = request.visitor()?.form_token.clone();
    let form = Form::read(request).await?;
    let password = form.text("password");
    if let Some(problem) = weakness(password, &email) {
        return refused(&WelcomePage { frame: Frame::plain(EN.sign_up_title, &token), email: &email, problem });
    }
    let password_hash = state.passwords.hash(password.to_owned()).await?;
    match state.store.confirm_sign_up(state.sign_up, &hash, &password_hash, state.free_credit_cents).await? {
        Some(user) => state.begin(&user, "/transcripts").await,
        None => Err(ApiError::not_found(EN.confirm_gone)),
    }
}
