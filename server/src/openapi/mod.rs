//! The OpenAPI 3.1 document, built from the routing table and the schemas in `components.json`.

use serde_json::{Map, Value, json};
use url::Url;

use crate::auth::Access;
use crate::routes::{OperationDoc, ROUTES, ResponseContent, Route};

/// Schemas and parameters, by name. A test checks that each is used and that each used name exists.
const COMPONENTS: &str = include_str!("components.json");

/// The frames of the WebSockets, as AsyncAPI 3.0.
pub const ASYNCAPI: &str = include_str!("asyncapi.json");

/// Descriptions of the error statuses.
const STATUSES: [(u16, &str); 17] = [
    (400, "The request is malformed or asks for an unsupported option"),
    (401, "The API key is missing, unknown or revoked"),
    (402, "The free credit is used up and there is no subscription"),
    (
        403,
        "The key belongs to a member of the team, and this is its owner's alone, or the operator has not turned this on",
    ),
    (404, "The account has no such resource"),
    (405, "The path does not take this method"),
    (408, "The body did not arrive in time"),
    (409, "The resource is not in the required state"),
    (413, "The body or the file is too large"),
    (415, "The body has another content type"),
    (416, "The range lies behind the end of the file"),
    (422, "A field has the wrong type or a value out of its range"),
    (426, "The request must upgrade the connection to a WebSocket"),
    (429, "Too many requests"),
    (500, "The service failed"),
    (502, "The language model's server failed"),
    (503, "The service cannot do this now"),
];

fn components() -> Map<String, Value> {
    serde_json::from_str(COMPONENTS).unwrap_or_default()
}

/// The document, for a service at `url`.
pub fn document(url: &Url) -> Value {
    let mut components = components();
    let form = form_of(&components["schemas"]["CreateTranscript"]);
    components["schemas"]["CreateTranscriptForm"] = form;
    components.insert(
        "securitySchemes".into(),
        json!({ "key": { "type": "http", "scheme": "bearer", "description": "An API key, `svc_...`" } }),
    );
    let mut paths = Map::new();
    for (route, doc) in ROUTES.iter().filter_map(|route| Some((route, route.doc.as_ref()?))) {
        let item = paths.entry(route.path).or_insert_with(|| json!({}));
        item[route.method.as_str().to_lowercase()] = operation(route, doc, &components);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Auricle",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Speech to text, and text to speech: uploads, transcripts, subtitles, live sessions, usage and billing.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": url.as_str().trim_end_matches('/') }],
        "paths": paths,
        "components": components,
    })
}

/// The form for a request to create a transcript: its recording is a file, and the other fields are the same.
fn form_of(request: &Value) -> Value {
    let mut form = request.clone();
    form["description"] =
        "The file and the fields of CreateTranscript in one request. Numbers, true, false and arrays are written as JSON".into();
    if let Some(parts) = form.as_object_mut() {
        parts.remove("examples");
    }
    form["required"] = json!(["file"]);
    if let Some(fields) = form["properties"].as_object_mut() {
        for source in ["audio_url", "upload_id"] {
            fields.remove(source);
        }
        let about = "The recording: audio or video, up to 5 GiB";
        fields.insert(
            "file".into(),
            json!({ "type": "string", "contentMediaType": "application/octet-stream", "description": about }),
        );
    }
    form
}

/// The encoding of a form's fields that are lists: one field each, as JSON.
fn lists_as_json(form: &Value) -> Value {
    let is_list = |field: &Value| field["type"].as_array().is_some_and(|types| types.contains(&json!("array")));
    let fields = form["properties"].as_object().into_iter().flatten().filter(|(_, field)| is_list(field));
    fields.map(|(name, _)| (name.clone(), json!({ "contentType": "application/json" }))).collect()
}

/// A response with JSON of this schema.
fn json_response(description: &str, schema: &str) -> Value {
    let schema = json!({ "$ref": format!("#/components/schemas/{schema}") });
    json!({ "description": description, "content": { "application/json": { "schema": schema } } })
}

fn operation(route: &Route, doc: &OperationDoc, components: &Map<String, Value>) -> Value {
    let in_path = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameters: Vec<Value> = in_path
        .chain(doc.parameters.iter().copied())
        .map(|name| json!({ "$ref": format!("#/components/parameters/{name}") }))
        .collect();
    let mut responses = Map::new();
    match doc.response {
        ResponseContent::Empty => responses.insert("204".into(), json!({ "description": "Done" })),
        #[cfg(feature = "webrtc")]
        ResponseContent::CreatedText(content_type) => responses.insert(
            "201".into(),
            json!({ "description": doc.summary, "content": { content_type: { "schema": { "type": "string" } } } }),
        ),
        ResponseContent::Upgrade => responses.insert("101".into(), json!({ "description": doc.summary })),
        ResponseContent::Json(name) => responses.insert("200".into(), json_response(doc.summary, name)),
        ResponseContent::JsonOrAccepted(name) => {
            responses.insert("202".into(), json!({ "description": "Received" }));
            responses.insert("200".into(), json_response(doc.summary, name))
        }
        ResponseContent::JsonOrEvents(name) => responses.insert(
            "200".into(),
            json!({
                "description": doc.summary,
                "content": {
                    "application/json": { "schema": { "$ref": format!("#/components/schemas/{name}") } },
                    "text/event-stream": { "schema": { "type": "string" } },
                },
            }),
        ),
        ResponseContent::Sound(content_types) => responses.insert("200".into(), {
            let sound: Map<String, Value> = content_types.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
            json!({ "description": doc.summary, "content": sound })
        }),
        ResponseContent::Text(content_type) => responses.insert(
            "200".into(),
            json!({ "description": doc.summary, "content": { content_type: { "schema": { "type": "string" } } } }),
        ),
    };
    let key = matches!(route.access, Access::ApiKey | Access::AnyApiKey | Access::KeyOrSecret);
    let specific = doc.errors.iter().copied();
    let common: &[u16] = if key { &[400, 401, 429, 503] } else { &[] };
    let body: &[u16] = if doc.request.is_some() { &[408] } else { &[] };
    for status in specific.chain(common.iter().copied()).chain(body.iter().copied()) {
        let description = STATUSES.iter().find(|(known, _)| *known == status).map_or("Failed", |(_, text)| *text);
        responses.insert(status.to_string(), json_response(description, doc.error));
    }
    let mut operation = json!({
        "tags": [doc.tag],
        "summary": doc.summary,
        "operationId": operation_id(route),
        "parameters": parameters,
        "responses": responses,
        "security": if key { json!([{ "key": [] }]) } else { json!([]) },
    });
    if let Some(name) = doc.request {
        let schema = |name: &str| json!({ "schema": { "$ref": format!("#/components/schemas/{name}") } });
        let mut content = json!({ doc.request_type: schema(name) });
        if let Some(form) = doc.form {
            content["multipart/form-data"] = schema(form);
            content["multipart/form-data"]["encoding"] = lists_as_json(&components["schemas"][form]);
        }
        operation["requestBody"] = json!({ "required": !doc.request_is_optional, "content": content });
    }
    operation
}

/// `get_v2_transcripts_transcript_id_srt`
fn operation_id(route: &Route) -> String {
    let path = route.path.replace(['{', '}'], "").replace(['/', '-', '.'], "_");
    format!("{}{path}", route.method.as_str().to_lowercase())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Every `$ref` in a value.
    fn references(value: &Value, into: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match (name.as_str(), value) {
                        ("$ref", Value::String(target)) => drop(into.insert(target.clone())),
                        _ => references(value, into),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, into)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_has_a_component_and_every_component_is_referenced() {
        let document = document(&Url::parse("http://127.0.0.1:8080").unwrap());
        let mut used = BTreeSet::new();
        references(&document, &mut used);
        let mut defined = BTreeSet::new();
        for part in ["schemas", "parameters"] {
            for name in document["components"][part].as_object().unwrap().keys() {
                defined.insert(format!("#/components/{part}/{name}"));
            }
        }
        assert_eq!(used, defined);
    }

    #[test]
    fn the_document_has_every_route_of_the_api_once() {
        let document = document(&Url::parse("http://127.0.0.1:8080").unwrap());
        let mut ids = BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                assert!(
                    ROUTES.iter().any(|route| route.path == path && route.method.as_str().to_lowercase() == *method)
                );
                assert!(ids.insert(operation["operationId"].as_str().unwrap().to_owned()));
            }
        }
        assert_eq!(ids.len(), ROUTES.iter().filter(|route| route.doc.is_some()).count());
    }
}
