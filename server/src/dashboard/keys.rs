//! API keys: create, list, revoke. A secret is shown once.

use std::sync::Arc;

use askama::Template;

use super::DashboardState;
use super::form::Form;
use super::frame::{Frame, Section, page, private};
use super::shown::Time;
use super::words::EN;
use crate::context::RequestContext;
use crate::http::response::{ApiError, Response, Result, see_other};
use crate::ids::KeyId;
use crate::store::SignIn;
use crate::visible;

/// The longest name, in characters.
const MAX_NAME_CHARS: usize = 100;

/// Keys that an account may have.
const MAX_KEYS: usize = 1000;

#[derive(Template)]
#[template(path = "keys.html")]
struct KeysPage {
    frame: Frame,
    keys: Vec<ListedKey>,
    /// The secret of the key that was just created, with its name.
    new: Option<(String, String)>,
    problem: &'static str,
    api: String,
}

struct ListedKey {
    id: String,
    name: String,
    created: Time,
    used: Option<Time>,
    /// The person who made it; empty for the administrator's.
    maker: String,
    /// The reader may revoke it.
    revocable: bool,
}

async fn list(state: &DashboardState, sign_in: &SignIn) -> Result<Vec<ListedKey>> {
    let keys = state.store.keys(Some(&sign_in.account.email)).await?;
    let valid = keys.into_iter().rev().filter(|key| key.revoked_at.is_none());
    Ok(valid
        .map(|key| ListedKey {
            revocable: sign_in.account.by_owner || key.maker.as_ref().is_some_and(|(maker, _)| *maker == sign_in.user),
            maker: key.maker.map(|(_, email)| email).unwrap_or_default(),
            id: key.id.to_string(),
            name: key.name,
            created: Time::new(key.created_at),
            used: key.last_used_at.map(Time::new),
        })
        .collect())
}

/// `GET /keys`
pub async fn show(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let frame = Frame::new(&state, &request, Section::Keys, EN.keys).await?;
    let keys = list(&state, request.visitor()?.signed_in()?).await?;
    page(&KeysPage { frame, keys, new: None, problem: "", api: api(&state) })
}

fn api(state: &DashboardState) -> String {
    state.api_url.as_str().trim_end_matches('/').to_owned()
}

/// `POST /keys`
pub async fn create(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let frame = Frame::new(&state, &request, Section::Keys, EN.keys).await?;
    let sign_in = request.visitor()?.signed_in()?.clone();
    let form = Form::read(request).await?;
    let name = form.text("name").trim().to_owned();
    let keys = list(&state, &sign_in).await?;
    let problem = match name.chars().count() {
        0 => EN.key_name_missing,
        count if count > MAX_NAME_CHARS => EN.key_name_long,
        _ if visible::check(&name).is_err() => EN.key_name_hidden,
        _ if keys.len() >= MAX_KEYS => EN.key_too_many,
        _ => "",
    };
    if !problem.is_empty() {
        return page(&KeysPage { frame, keys, new: None, problem, api: api(&state) });
    }
    let key = state.store.create_key(&sign_in.account.id, &name, Some(&sign_in.user)).await?;
    let keys = list(&state, &sign_in).await?;
    page(&KeysPage { frame, keys, new: Some((name, key.secret)), problem: "", api: api(&state) })
}

/// `POST /keys/{key_id}/revoke`. A member revokes keys of the member's own alone.
pub async fn revoke(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let (sign_in, key) = (request.visitor()?.signed_in()?.clone(), KeyId::from(request.param("key_id")));
    Form::read(request).await?;
    let maker = (!sign_in.account.by_owner).then_some(&sign_in.user);
    if !state.store.revoke_key_of(&sign_in.account.id, &key, maker).await? {
        return Err(ApiError::not_found(EN.key_gone));
    }
    Ok(private(see_other("/keys")))
}
