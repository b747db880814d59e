//! Usage: costs by day, and the events as a table and as CSV.

use std::collections::VecDeque;
use std::sync::Arc;

use askama::Template;
use bytes::Bytes;
use futures_util::{TryStreamExt as _, stream};
use hyper::header::{CONTENT_DISPOSITION, HeaderValue};

use super::DashboardState;
use super::chart::Chart;
use super::frame::{Frame, Section, page, private};
use super::shown::{Time, duration};
use super::words::EN;
use crate::billing::dollars;
use crate::clock;
use crate::context::RequestContext;
use crate::http::response::{Response, Result, streamed};
use crate::http::response_body::ResponseBroken;
use crate::store::{self, UsageEvent};

/// Days of the chart.
const DAYS: i64 = 30;

const DAY_MS: i64 = 24 * 3_600_000;

/// Events of a page, and of a part of the CSV.
const PAGE: i64 = 50;
const PART: i64 = 1000;

#[derive(Template)]
#[template(path = "usage.html")]
struct UsagePage {
    frame: Frame,
    chart: Chart,
    events: Vec<Event>,
    total: i64,
    /// Links to the pages around this one.
    newer: Option<i64>,
    older: Option<i64>,
}

struct Event {
    time: Time,
    model: String,
    quantity: String,
    cost: String,
    credit: String,
    billed: String,
    transcript: Option<String>,
}

/// `GET /usage`
pub async fn show(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let frame = Frame::new(&state, &request, Section::Usage, EN.usage).await?;
    let account = &request.account()?.id;
    let offset = request.query_integer("offset", 0..=i64::from(i32::MAX))?.unwrap_or(0);
    let today = clock::now_ms() / DAY_MS;
    let costs = state.store.daily_costs(account, (today - DAYS + 1) * DAY_MS).await?;
    let (events, total) = state.store.usage(account, PAGE, offset).await?;
    let events = events.into_iter().map(|event| Event {
        time: Time::new(event.created_at),
        model: event.sku,
        quantity: duration(event.quantity_ms),
        cost: dollars(event.retail_cost_cents),
        credit: dollars(event.credit_applied_cents),
        billed: dollars(event.billable_cents),
        transcript: event.transcript_id,
    });
    page(&UsagePage {
        frame,
        chart: Chart::new(&costs, today, DAYS),
        events: events.collect(),
        total,
        newer: (offset > 0).then(|| (offset - PAGE).max(0)),
        older: (offset + PAGE < total).then_some(offset + PAGE),
    })
}

/// A line of the CSV. No field holds text of a user.
fn line(event: &UsageEvent) -> String {
    format!(
        "{},{},{},{},{:.3},{},{},{},{}\r\n",
        clock::iso(event.created_at),
        event.id,
        event.sku,
        event.unit_type,
        event.quantity_ms as f64 / 1e3,
        event.retail_cost_cents,
        event.credit_applied_cents,
        event.billable_cents,
        event.transcript_id.as_deref().or(event.session_id.as_deref()).unwrap_or_default(),
    )
}

/// `GET /usage.csv`
pub async fn csv(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?.id.clone();
    let head = "created_at,id,model,unit_type,quantity_seconds,retail_cost_cents,credit_applied_cents,billable_cents,source\r\n";
    let first = VecDeque::from([Bytes::from_static(head.as_bytes())]);
    // Later events would shift the rest: some would come twice.
    let until = clock::now_ms();
    let parts = stream::try_unfold((state, Some(0), first), move |(state, offset, mut ready)| {
        let account = account.clone();
        async move {
            if let Some(part) = ready.pop_front() {
                return Ok::<_, store::Error>(Some((part, (state, offset, ready))));
            }
            let Some(offset) = offset else { return Ok(None) };
            let events = state.store.usage_until(&account, until, PART, offset).await?;
            let next = (events.len() as i64 == PART).then_some(offset + PART);
            let text: String = events.iter().map(line).collect();
            Ok(Some((Bytes::from(text), (state, next, ready))))
        }
    });
    let parts = parts.map_err(|error| {
        tracing::error!(%error, "a table of usage broke off");
        ResponseBroken
    });
    let mut response = private(streamed("text/csv; charset=utf-8", parts));
    let name = HeaderValue::from_static("attachment; filename=\"usage.csv\"");
    response.headers_mut().insert(CONTENT_DISPOSITION, name);
    Ok(response)
}
