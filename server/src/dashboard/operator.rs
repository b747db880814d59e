//! The operator's page: nodes, device, models, queue, live sessions, memory, pulls of checkpoints, and limits of accounts. For everybody
//! else it does not exist.

use std::path::Path;
use std::sync::Arc;

use askama::Template;
use auricle_engine::DeviceInfo;
use serde::Serialize;
use url::Url;

use super::DashboardState;
use super::form::Form;
use super::frame::{Frame, Section, page, private, refused};
use super::pulls::{PullState, Pulls};
use super::shown::{Time, language};
use super::words::EN;
use crate::billing::{PaymentProvider, dollars};
use crate::checkpoints::{self, ListedModel, ModelState, decimal_bytes};
use crate::clock;
use crate::context::RequestContext;
use crate::http::response::{ApiError, Response, Result, json, see_other};
use crate::ids::{AccountId, NodeId};
use crate::store::{AccountCredit, ListedNode, ServiceState, SignIn};

/// Accounts of the page. `auricle accounts` does the same for others.
const MAX_ACCOUNTS: i64 = 50;

/// A process that has not reported for this time may be dead.
const SILENT_MS: i64 = 35_000;

/// The process's state for the operator's page.
pub struct Operation {
    /// Addresses of the people who see the page, as they sign in. Without any it is the owners of the first accounts.
    pub operators: Vec<String>,
    pub pulls: Pulls,
    pub metrics_url: Url,
    /// This process.
    pub node: NodeId,
    /// Live sessions that a process takes.
    pub max_live_sessions: usize,
}

impl Operation {
    /// True for the owner of an account whose address the settings name, or of the first ones where they name none. A member's address was
    /// chosen by the owner of a team, who also had the link that set the password.
    pub fn is_operator(&self, sign_in: &SignIn) -> bool {
        let is_first = self.operators.is_empty() && sign_in.account.is_first;
        sign_in.account.by_owner && (is_first || self.is_named(&sign_in.email))
    }

    /// True for an address that the settings name.
    pub fn is_named(&self, email: &str) -> bool {
        self.operators.iter().any(|operator| operator == email)
    }
}

#[derive(Template)]
#[template(path = "operator.html")]
struct OperatorPage {
    frame: Frame,
    service: ServiceState,
    waits_since: Option<Time>,
    sessions: i64,
    max_live_sessions: usize,
    nodes: Vec<ShownNode>,
    /// Name and value of each fact of the device.
    device: Vec<(&'static str, String)>,
    warnings: Vec<String>,
    memory: Option<String>,
    free_memory: Option<String>,
    weights: String,
    models: Vec<Model>,
    pulls: Vec<NodePull>,
    problem: String,
    metrics_url: String,
    /// Accounts and their limits, where the limits are the operator's.
    accounts: Option<Vec<ListedAccount>>,
}

/// An account with its credit.
struct ListedAccount {
    id: String,
    email: String,
    credit: String,
    is_unlimited: bool,
}

impl OperatorPage {
    fn is_pulling(&self) -> bool {
        self.pulls.iter().any(|pull| pull.state.is_running)
    }
}

/// The last pull of a process.
#[derive(Serialize)]
struct NodePull {
    node: NodeId,
    /// The name of its machine; empty where there is one process.
    host: String,
    #[serde(flatten)]
    state: PullState,
}

struct ShownNode {
    host: String,
    address: String,
    role: String,
    version: String,
    device: String,
    memory: String,
    sessions: i64,
    started: Time,
    seen: Time,
    /// It reported of late.
    is_alive: bool,
    /// The process that shows the page.
    is_this: bool,
}

struct Model {
    id: String,
    kind: String,
    badge: &'static str,
    state: &'static str,
    /// The published checkpoint that serves it, or the starter's folder.
    checkpoint: String,
    /// Bytes of weights that are loaded.
    memory: String,
    languages: String,
    /// Sizes and labels of what can be pulled.
    offers: Vec<(String, String)>,
}

/// Checks that the visitor is an operator.
///
/// # Errors
/// That of a page that does not exist.
fn check(state: &DashboardState, request: &RequestContext) -> Result<()> {
    let sign_in = request.visitor()?.sign_in.as_ref();
    match sign_in.is_some_and(|sign_in| state.operation.is_operator(sign_in)) {
        true => Ok(()),
        false => Err(ApiError::no_such_path()),
    }
}

/// `GET /operator`
pub async fn show(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    check(&state, &request)?;
    let frame = Frame::new(&state, &request, Section::Operator, EN.operator).await?;
    page(&operator_page(&state, frame, String::new()).await?)
}

/// `POST /operator`: starts a pull.
pub async fn start_pull(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    check(&state, &request)?;
    let frame = Frame::new(&state, &request, Section::Operator, EN.operator).await?;
    let form = Form::read(request).await?;
    let (model, size) = (form.text("model"), form.text("size"));
    let listed = checkpoints::list(&state.catalog).map_err(|error| ApiError::internal(&error))?;
    // The page offers what the catalog names, and nothing else of the hub.
    let is_known = listed.iter().any(|listed| listed.id == model && !listed.offers.is_empty());
    let started = match is_known {
        true => state.operation.pulls.start(model, Some(size).filter(|size| !size.is_empty())),
        false => return Err(ApiError::not_found(EN.pull_unknown)),
    };
    match started {
        Ok(()) => Ok(private(see_other("/operator#pull"))),
        Err(error) => refused(&operator_page(&state, frame, format!("{error}.")).await?),
    }
}

/// `POST /operator/limits`: lifts the limit of an account's credit, or sets it again.
pub async fn set_limit(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    check(&state, &request)?;
    let form = Form::read(request).await?;
    let account = AccountId::from(form.text("account").to_owned());
    let is_there = is_local(&state) && state.store.set_unlimited(&account, form.text("limit") == "none").await?;
    if !is_there {
        return Err(ApiError::not_found(EN.account_unknown));
    }
    state.notifiers.jobs.notify_one();
    Ok(private(see_other("/operator#accounts")))
}

/// True if the limits of accounts are the operator's, and no payment provider's.
fn is_local(state: &DashboardState) -> bool {
    matches!(&*state.payments, PaymentProvider::Local(_))
}

/// `GET /data/operator/pull`: the progress of a pull, for the page's script.
pub async fn progress(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    check(&state, &request)?;
    let nodes = state.store.nodes().await?;
    Ok(private(json(&node_pulls(&state, &nodes, clock::now_ms()))))
}

/// The last pull of each process. Of this process it is the state now, of others the one that they have stored.
fn node_pulls(state: &DashboardState, nodes: &[ListedNode], now: i64) -> Vec<NodePull> {
    let this = &state.operation.node;
    let pull = |listed: &ListedNode| {
        let node = &listed.node;
        let stored = || serde_json::from_str::<PullState>(listed.pull.as_deref()?).ok();
        let mut state = if node.id == *this { state.operation.pulls.state() } else { stored() }?;
        if state.is_running && !is_alive(listed, now) {
            (state.is_running, state.has_failed) = (false, true);
            EN.pull_lost.clone_into(&mut state.text);
        }
        let host = if nodes.len() > 1 { format!("{} · {}", node.host, node.address) } else { String::new() };
        Some(NodePull { node: node.id.clone(), host, state })
    };
    nodes.iter().filter_map(pull).collect()
}

fn is_alive(node: &ListedNode, now: i64) -> bool {
    now - node.seen_at < SILENT_MS
}

async fn operator_page(state: &DashboardState, frame: Frame, problem: String) -> Result<OperatorPage> {
    let service = state.store.service_state().await?;
    let now = clock::now_ms();
    let nodes = state.store.nodes().await?;
    let pulls = node_pulls(state, &nodes, now);
    let engine = state.engine.as_ref();
    let loaded = engine.map(|engine| engine.blocking().loaded_models()).unwrap_or_default();
    let listed = checkpoints::list(&state.catalog).map_err(|error| ApiError::internal(&error))?;
    let facts = |device: &&DeviceInfo| {
        let driver = if device.driver.is_empty() { device.api.clone() } else { device.driver.clone() };
        let precision = if device.f16 { "f16" } else { "f32" };
        [
            (EN.device, device.name.clone()),
            (EN.device_id, device.id.clone()),
            (EN.device_driver, driver),
            (EN.device_precision, precision.to_owned()),
        ]
    };
    let device = engine.map(|engine| engine.devices().iter().flat_map(facts).collect());
    let accounts = if is_local(state) { Some(state.store.accounts_by_credit(MAX_ACCOUNTS).await?) } else { None };
    let account = |account: AccountCredit| ListedAccount {
        id: account.id.to_string(),
        email: account.email,
        credit: dollars(account.balance),
        is_unlimited: account.subscribed,
    };
    Ok(OperatorPage {
        frame,
        waits_since: service.oldest_queued_at.map(Time::new),
        sessions: service.sessions.iter().map(|(_, sessions)| sessions).sum(),
        service,
        max_live_sessions: state.operation.max_live_sessions,
        nodes: nodes.into_iter().map(|node| shown_node(node, now, &state.operation.node)).collect(),
        device: device.unwrap_or_default(),
        warnings: engine.map(|engine| engine.warnings().to_vec()).unwrap_or_default(),
        memory: resident_bytes().map(decimal_bytes),
        free_memory: auricle_engine::available_memory().map(decimal_bytes),
        weights: decimal_bytes(loaded.iter().map(|(_, bytes)| bytes).sum()),
        models: listed.into_iter().map(|listed| model(listed, &loaded)).collect(),
        pulls,
        problem,
        metrics_url: state.operation.metrics_url.to_string(),
        accounts: accounts.map(|accounts| accounts.into_iter().map(account).collect()),
    })
}

fn shown_node(listed: ListedNode, now: i64, this: &NodeId) -> ShownNode {
    let is_alive = is_alive(&listed, now);
    let ListedNode { node, seen_at, sessions, .. } = listed;
    let memory = node.memory_bytes.and_then(|bytes| u64::try_from(bytes).ok());
    ShownNode {
        is_this: node.id == *this,
        is_alive,
        host: node.host,
        address: node.address,
        role: node.role,
        version: node.version,
        device: node.device,
        memory: memory.map(decimal_bytes).unwrap_or_default(),
        sessions,
        started: Time::new(node.started_at),
        seen: Time::new(seen_at),
    }
}

fn model(listed: ListedModel, loaded: &[(std::path::PathBuf, u64)]) -> Model {
    let bytes: u64 = loaded.iter().filter(|(path, _)| path.starts_with(&listed.path)).map(|(_, bytes)| bytes).sum();
    let (badge, state) = match listed.state {
        ModelState::Published => ("completed", EN.model_published),
        ModelState::Starter => ("queued", EN.model_starter),
        ModelState::Missing => ("error", EN.model_missing),
    };
    let offers = listed.offers.into_iter().filter(|offer| !offer.serves).map(|offer| {
        let bytes = offer.download_bytes.map(|bytes| format!(" ({})", decimal_bytes(bytes))).unwrap_or_default();
        (offer.size.unwrap_or_default(), format!("{}{bytes}", offer.published))
    });
    let folder = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Model {
        badge,
        state,
        checkpoint: listed.published.unwrap_or_else(|| folder(&listed.path)),
        memory: if bytes > 0 { decimal_bytes(bytes) } else { String::new() },
        languages: match listed.languages.as_slice() {
            [only] if only == "any" => EN.languages_any.into(),
            [only] => language(only),
            languages => format!("{} {}", languages.len(), EN.languages_number),
        },
        offers: offers.collect(),
        id: listed.id,
        kind: listed.kind,
    }
}

/// The memory of this process, bytes, if the system tells.
pub fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}
