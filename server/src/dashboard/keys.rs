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
use crate::store::Account;

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
}

async fn list(state: &DashboardState, account: &Account) -> Result<Vec<ListedKey>> {
    let keys = state.store.keys(Some(&account.email)).await?;
    let valid = keys.into_iter().rev().filter(|key| key.revoked_at.is_none());
    Ok(valid
        .map(|key| ListedKey {
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
    let keys = list(&state, request.account()?).await?;
    page(&KeysPage { frame, keys, new: None, problem: "", api: api(&state) })
}

fn api(state: &DashboardState) -> String {
    state.api_url.as_str().trim_end_matches('/').to_owned()
}

/// `POST /keys`
pub async fn create(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let frame = Frame::new(&state, &request, Section::Keys, EN.keys).await?;
    let account = request.account()?.clone();
    let form = Form::read(request).await?;
    let name = form.text("name").trim().to_owned();
    let keys = list(&state, &account).await?;
    let problem = match name.chars().count() {
        0 => EN.key_name_missing,
        count if count > MAX_NAME_CHARS => EN.key_name_long,
        _ if keys.len() >= MAX_KEYS => EN.key_too_many,
        _ => "",
    };
    if !problem.is_empty() {
        return page(&KeysPage { frame, keys, new: None, problem, api: api(&state) });
    }
    let key = state.store.create_key(&account.id, &name).await?;
    let keys = list(&state, &account).await?;
    page(&KeysPage { frame, keys, new: Some((name, key.secret)), problem: "", api: api(&state) })
}

/// `POST /keys/{key_id}/revoke`
pub async fn revoke(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let (account, key) = (request.account()?.id.clone(), KeyId::from(request.param("key_id")));
    Form::read(request).await?;
    if !state.store.revoke_key_of(&account, &key).await? {
        return Err(ApiError::not_found(EN.key_gone));
    }
    Ok(private(see_other("/keys")))
}
